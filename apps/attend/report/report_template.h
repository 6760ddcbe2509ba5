#pragma once

#include <string_view>

namespace attend::app {

/// Returns the HTML page apps/page/dist/report.html, into which a report is written.
std::string_view report_template();

}  // namespace attend::app
