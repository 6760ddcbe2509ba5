#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace attend::train {

/// Texts and the class of each.
struct LabelledLines {
  std::vector<std::string> texts;
  std::vector<int64_t> labels;       ///< of each text, an index into `classes`
  std::vector<std::string> classes;  ///< the distinct labels, sorted
};

/// Reads the columns `text` and `label` of a table, which its first line names; other columns are
/// ignored, and so are empty lines. The table is UTF-8, by its extension
/// - .csv: commas between fields, quotes as in RFC 4180, so that a field may have line breaks;
/// - .tsv: tabs between fields, and a quote is a character like any other.
///
/// Throws InputError, naming the file and the line, if it is anything else: another number of
/// fields than the first line has, a misplaced quote, an empty text or label, no line at all.
///
///     auto lines = read_labelled_lines("reviews.tsv");
///     lines.classes[lines.labels[0]] == "positive";
LabelledLines read_labelled_lines(const std::filesystem::path& path);

}  // namespace attend::train
