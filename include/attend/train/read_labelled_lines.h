#pragma once

#include "attend/api.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace attend::train {

/// Texts with class labels.
struct LabelledLines {
  std::vector<std::string> texts;    ///< one per row
  std::vector<int64_t> labels;       ///< class of each text, as an index into `classes`
  std::vector<std::string> classes;  ///< distinct labels, sorted
};

/// Reads the columns `text` and `label` of a UTF-8 table whose first line names the columns. Other
/// columns and empty lines are ignored. The format depends on the extension:
/// - .csv: comma-separated, quotes as in RFC 4180, so a field may contain line breaks
/// - .tsv: tab-separated, quotes have no special meaning
///
/// Throws InputError if the file is missing, is not UTF-8 text, has another extension, has no rows,
/// or does not have exactly one column `text` and one column `label`. Also throws InputError for a
/// row with a misplaced or unterminated quote, an empty text or label, or more or fewer fields than
/// the first line. The message names the file and, for an error in a line, the line.
///
///     auto lines = read_labelled_lines("reviews.tsv");
///     lines.classes[lines.labels[0]] == "positive";
ATTEND_API LabelledLines read_labelled_lines(const std::filesystem::path& path);

}  // namespace attend::train
