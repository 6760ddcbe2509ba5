#pragma once

#include "report/report_data.h"

#include <string>

namespace attend::app {

/// Returns the report as an HTML page that needs no other files. The page contains the data for its
/// script, and tables for readers without JavaScript. All texts of the run are escaped.
std::string report_page(const ReportData& data);

}  // namespace attend::app
