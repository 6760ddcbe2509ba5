#pragma once

#include "attend/io/tokenizer.h"

#include <cstdint>
#include <vector>

namespace attend::train {

/// The special tokens around the tokens of a text, such as [CLS] and [SEP]; empty unless the
/// tokenizer is that of a published model.
struct SpecialTokens {
  std::vector<int64_t> before;
  std::vector<int64_t> after;

  int64_t size() const { return std::ssize(before) + std::ssize(after); }
  /// Returns the tokens of a text between the special tokens.
  std::vector<int64_t> around(const std::vector<int64_t>& text) const;
};

SpecialTokens special_tokens_of(const Tokenizer& tokenizer);

}  // namespace attend::train
