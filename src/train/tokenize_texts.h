#pragma once

#include "attend/io/tokenizer.h"
#include "attend/train/recipe.h"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::train {

/// Returns the narrowest dtype that contains all token ids: uint8, uint16 or int32.
c10::ScalarType token_dtype(const Tokenizer& tokenizer);

/// Texts that `tokenize_texts` has read.
struct TokenizedTexts {
  uint32_t checksum = 0;  ///< CRC-32C of the texts
  int64_t num_bytes = 0;  ///< size of the texts, without added line breaks
};

/// What the tokens of texts are for.
struct TextUse {
  bool can_change = false;  ///< messages propose options with which another tokenizer is made
  bool masking = false;     ///< a masked language model: a tokenizer needs a mask token, and a
                            ///< published one adds no special tokens to a text
};

/// Tokenizes the texts of files, one after the other, in pieces, several of them at a time. Calls
/// `write` with the token ids of each piece, in their order, as elements of `token_dtype`. The
/// special tokens of a published tokenizer are added once per file. Pieces end where the tokens
/// before and after the end are those of the whole text, as far as `cut_for` finds such places.
///
/// Throws InputError if a text cannot be read or encoded; the message names file and position.
TokenizedTexts tokenize_texts(const std::vector<std::string>& paths, const DataConfig& data,
                              const Tokenizer& tokenizer, const TextUse& use,
                              const std::function<void(std::string_view bytes)>& write);

}  // namespace attend::train
