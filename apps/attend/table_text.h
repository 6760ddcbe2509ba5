#pragma once

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

}  // namespace attend::app
