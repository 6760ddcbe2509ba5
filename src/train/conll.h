#pragma once

#include "attend/api.h"
#include "attend/train/recipe.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace attend::train {

/// A sentence with a tag for each word.
struct TaggedSentence {
  std::vector<std::string> words;
  std::vector<std::string> tags;
  int64_t line = 0;  ///< number of the first line, from 1
};

/// Reads words and tags from a table (.csv or .jsonl) or a file in the format of CoNLL.
///
/// A row of a table is a sentence. Its columns `data.text_column` and `data.label_column` contain
/// lists (.jsonl), or words and tags between spaces.
///
/// Any other file has a word in each line, and an empty line after each sentence. The columns are
/// separated by tabs or, in a line without tabs, by spaces; `text_column` and `label_column` are
/// their numbers, from 1, by default the first and the last, or in a .conllu file FORM and UPOS.
/// Lines that begin with -DOCSTART- end a sentence. A line that begins with # before the first word
/// of a sentence is a comment if it has another number of columns, or begins with "# " before the
/// first sentence. The multiword tokens and empty nodes of a .conllu file are left out.
///
/// Throws InputError in the same cases as `read_table`, and for a line with another number of
/// columns, a sentence with different numbers of words and tags, an empty word, or a file without
/// words. The message names file and line.
ATTEND_API std::vector<TaggedSentence> read_tagged_sentences(const std::filesystem::path& path,
                                                             const DataConfig& data);

/// Default of `DataConfig::text_column` for words.
inline constexpr const char* kWordsColumn = "tokens";
/// Default of `DataConfig::label_column` for tags.
inline constexpr const char* kTagsColumn = "tags";

}  // namespace attend::train
