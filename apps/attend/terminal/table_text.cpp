#include "terminal/table_text.h"

#include "attend/io/utf8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace attend::app {

std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       std::string_view alignment) {
  return table_text(rows, alignment, [](auto, auto, const std::string& text) { return text; });
}

std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       std::string_view alignment, const CellStyle& style) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t row_index = 0; row_index < rows.size(); ++row_index) {
    const auto& row = rows[row_index];
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool right = alignment[std::min(i, alignment.size() - 1)] == '>';
      if (i > 0) line += "  ";
      line += style(row_index, i,
                    right ? fmt::format("{:>{}}", row[i], widths[i])
                          : fmt::format("{:<{}}", row[i], widths[i]));
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

std::string shorten_middle(const std::string& text, std::size_t width) {
  constexpr std::string_view kGap = "...";
  const auto characters = split_characters(text);
  if (characters.size() <= width) return text;
  const auto kept = width - kGap.size();
  const auto end = static_cast<std::ptrdiff_t>(kept / 2);
  const auto begin = static_cast<std::ptrdiff_t>(kept) - end;
  return fmt::format("{}{}{}", fmt::join(characters.begin(), characters.begin() + begin, ""), kGap,
                     fmt::join(characters.end() - end, characters.end(), ""));
}

std::string report_line(const std::string& label, const std::string& text) {
  return fmt::format("{:<10}  {}\n", label, text);
}

}  // namespace attend::app
