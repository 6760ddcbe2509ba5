#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attend::train {

/// A column that `read_table` reads.
struct TableColumn {
  std::string name;            ///< name of the column
  std::string option = {};     ///< option that sets the name, such as "text_column", for messages
  TextEncoding encoding = {};  ///< `TextEncoding::bytes`: may contain any bytes except NUL
  bool may_be_empty = false;   ///< an empty text, or null in JSON, is no error
  bool may_be_list = false;    ///< a list in a .jsonl file is returned as JSON, see `Table::lists`
};

/// Columns of a table.
struct Table {
  std::vector<std::vector<std::string>> columns;  ///< texts of each column, one per row
  std::vector<int64_t> line_numbers;  ///< number of the first line of each row, counted from 1
  std::set<std::pair<std::size_t, std::size_t>> lists = {};  ///< column and row of each list
};

/// Extensions of the files that `read_table` reads, for messages.
inline constexpr const char* kTableExtensions = ".csv, .tsv or .jsonl";

/// Reads columns of a table, in the order of `columns`. Other columns and empty lines are ignored.
/// If no column has a given name exactly, the case of ASCII letters is ignored. The format depends
/// on the extension:
/// - .csv: separated by commas, semicolons or tabs, whichever is most frequent in the first line;
///   quotes as in RFC 4180, so a field may contain line breaks
/// - .tsv: tab-separated, quotes have no special meaning
/// - .jsonl: a JSON object per line, whose keys are the columns and whose values are strings,
///   numbers or booleans
///
/// The first line of a .csv or .tsv file names the columns. Throws InputError if the file is
/// missing, is not UTF-8 text or is UTF-16, contains NUL, has another extension, has no rows, or
/// does not have exactly one column of each name. If a column has `TextEncoding::bytes`, only the
/// other columns and the names must be UTF-8; JSON is always UTF-8. Also throws InputError for a
/// row with a misplaced or unterminated quote, an empty text, or more or fewer fields than the
/// first line, and for a line that is no JSON object. The message names the file and, for an error
/// in a line, the line. Also throws InputError if the file has more than `max_bytes` bytes.
///
///     auto table = read_table("reviews.tsv", {{.name = "text"}, {.name = "label"}});
///     table.columns[1][0] == "positive";  // label of the first row
ATTEND_API Table read_table(const std::filesystem::path& path,
                            const std::vector<TableColumn>& columns,
                            int64_t max_bytes = std::numeric_limits<int64_t>::max());

/// Returns the strings, numbers and booleans of a list (`Table::lists`) as texts. `cell`: the list
/// as JSON; `column`: name of its column, for messages. Throws InputError for other elements.
///
///     texts_of_list(R"(["good", 1])", "label") == std::vector<std::string>{"good", "1"};
ATTEND_API std::vector<std::string> texts_of_list(const std::string& cell,
                                                  const std::string& column);

/// True if the extension of the file, in lower or upper case, is one that `read_table` reads.
ATTEND_API bool has_table_extension(const std::filesystem::path& path);

}  // namespace attend::train
