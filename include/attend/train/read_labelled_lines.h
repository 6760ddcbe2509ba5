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
  std::vector<int64_t> labels;       ///< index into `classes` of each text
  std::vector<std::string> classes;  ///< distinct labels, sorted
};

/// Reads the columns `text` and `label` of a UTF-8 table whose first line names the columns. Other
/// columns and empty lines are ignored. The format depends on the extension:
/// - .csv: comma-separated, quotes as in RFC 4180, so a field may contain line breaks
/// - .tsv: tab-separated, quotes have no special meaning
///
/// Throws InputError if the file is missing or is not UTF-8 text, has another extension, or does
/// not have exactly one column `text` and one column `label`; for a row with another number of
/// fields than the first line, a misplaced or unterminated quote, an empty text or label, and if
/// there are no rows. The message names file and line.
///
///     auto lines = read_labelled_lines("reviews.tsv");
///     lines.classes[lines.labels[0]] == "positive";
ATTEND_API LabelledLines read_labelled_lines(const std::filesystem::path& path);

}  // namespace attend::train
