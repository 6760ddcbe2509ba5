#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace attend::train {

/// Texts with class labels.
struct LabelledLines {
  std::vector<std::string> texts;     ///< one per row
  std::vector<std::string> labels;    ///< name of the class of each text
  std::vector<int64_t> line_numbers;  ///< number of the first line of each row, counted from 1
};

/// Names of the two columns that `read_labelled_lines` reads.
struct LabelledColumns {
  std::string text = "text";    ///< column of texts
  std::string label = "label";  ///< column of labels
};

/// Extensions of the files that `read_labelled_lines` reads, for messages.
inline constexpr const char* kTableExtensions = ".csv, .tsv or .jsonl";

/// Reads the columns of texts and labels of a table. Other columns and empty lines are ignored. If
/// no column has a given name exactly, the case of ASCII letters is ignored. The format depends on
/// the extension:
/// - .csv: separated by commas, semicolons or tabs, whichever is most frequent in the first line;
///   quotes as in RFC 4180, so a field may contain line breaks
/// - .tsv: tab-separated, quotes have no special meaning
/// - .jsonl: a JSON object per line, whose keys are the columns and whose values are strings,
///   numbers or booleans
///
/// The first line of a .csv or .tsv file names the columns. With `TextEncoding::bytes`, the texts
/// may contain any bytes except NUL, and only labels and column names must be UTF-8; JSON is always
/// UTF-8. Throws InputError if the file is missing, is not UTF-8 text or is UTF-16, contains NUL,
/// has another extension, has no rows, or does not have exactly one column of texts and one column
/// of labels. Also throws InputError for a row with a misplaced or unterminated quote, an empty
/// text or label, or more or fewer fields than the first line, and for a line that is no JSON
/// object. The message names the file and, for an error in a line, the line. Also throws InputError
/// if the file has more than `max_bytes` bytes.
///
///     auto lines = read_labelled_lines("reviews.tsv");
///     lines.labels[0] == "positive";
ATTEND_API LabelledLines
read_labelled_lines(const std::filesystem::path& path, const LabelledColumns& columns = {},
                    int64_t max_bytes = std::numeric_limits<int64_t>::max(),
                    TextEncoding encoding = TextEncoding::utf8);

/// True if the extension of the file, in lower or upper case, is one that `read_labelled_lines`
/// reads.
ATTEND_API bool has_table_extension(const std::filesystem::path& path);

}  // namespace attend::train
