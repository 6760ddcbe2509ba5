#include "table_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::app {

std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       std::string_view alignment) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool right = alignment[std::min(i, alignment.size() - 1)] == '>';
      if (i > 0) line += "  ";
      line += right ? fmt::format("{:>{}}", row[i], widths[i])
                    : fmt::format("{:<{}}", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace attend::app
