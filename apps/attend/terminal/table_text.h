#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::app {

/// Formats rows of cells as lines. The width of a column is the length of its longest cell.
/// `alignment`: for each column, '<' (left) or '>' (right); the last one also applies to further
/// columns.
///
///     table_text({{"class", "f1"}, {"positive", "0.9"}}, "<>") ==
///         "class      f1\n"
///         "positive  0.9\n"
std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       std::string_view alignment);

/// Returns the padded text of a cell with colors. `row` and `column`: indices of the cell.
using CellStyle =
    std::function<std::string(std::size_t row, std::size_t column, const std::string& text)>;

/// Formats a table whose cells have colors.
std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       std::string_view alignment, const CellStyle& style);

/// Returns the length of the longest line of a text.
std::size_t longest_line(const std::string& text);

/// Returns `text` if it has at most `width` characters (at least 5). Otherwise replaces the
/// characters in its middle by "...". `text` must be valid UTF-8.
///
///     shorten_middle("sweep/lr=0.001", 11) == "swee....001"
std::string shorten_middle(const std::string& text, std::size_t width);

/// Formats a line with a label column: "task        senses\n".
std::string report_line(const std::string& label, const std::string& text);

}  // namespace attend::app
