#include "report/write_report.h"

#include "io/files.h"
#include "report/report_data.h"
#include "report/report_page.h"

namespace attend::app {

void write_report(const std::filesystem::path& directory, const std::filesystem::path& file) {
  replace_file(file, report_page(report_data(directory)));
}

}  // namespace attend::app
