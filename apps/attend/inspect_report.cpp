#include "inspect_report.h"

#include <fmt/format.h>

namespace attend::app {

std::string report_line(const std::string& label, const std::string& text) {
  return fmt::format("{:<10}  {}\n", label, text);
}

}  // namespace attend::app
