#pragma once

#include "tokenizers/token_table.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attend::tokenizers {

/// Content of tokenizer.json. The vocabulary and the merges of the model, which are nearly all of
/// the file, are not in `root`: values of nlohmann::json would take about ten times their size.
struct TokenizerJson {
  /// Form of `model.vocab`.
  enum class Vocab {
    missing,
    ids,     ///< an object of tokens and ids
    scores,  ///< an array of tokens with scores; the ids are the indices
  };

  nlohmann::json root;
  Vocab vocab = Vocab::missing;
  TokenTable tokens;
  std::vector<double> scores;  ///< by id, for Vocab::scores
  bool has_merges = false;
  /// The texts of the pairs of `model.merges`, and for each merge the ends of its two texts.
  std::string merge_texts;
  std::vector<std::pair<uint32_t, uint32_t>> merge_ends;
};

/// Parses the text of tokenizer.json in one pass. Throws InputError if it is not JSON (the message
/// names offset, line and column), has a duplicate key, or if `model.vocab` or `model.merges` has
/// an unexpected form. `tokens` is not finished.
TokenizerJson parse_tokenizer_json(std::string_view text);

}  // namespace attend::tokenizers
