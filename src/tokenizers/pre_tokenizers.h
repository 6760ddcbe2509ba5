#pragma once

#include "tokenizers/fields.h"
#include "tokenizers/pattern.h"
#include "tokenizers/pieces.h"

#include <string>
#include <variant>
#include <vector>

namespace attend::tokenizers {

/// Where the matches of a pattern go when a text is split at them.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// The pre-tokenizers of tokenizer.json, with the names that they have there. Each splits the
/// pieces of a text further, and may change their texts.
namespace pre_tokenizers {

struct BertPreTokenizer {};
struct ByteLevel {
  bool add_prefix_space;
  std::optional<Regex> regex;
};
struct CharDelimiterSplit {
  std::string delimiter;
};
struct Digits {
  bool individual;
};
struct FixedLength {
  std::size_t characters;
};
struct Metaspace {
  enum class Prepend { first, never, always };
  std::string replacement;
  Prepend prepend;
  bool split;
};
struct Punctuation {
  SplitBehavior behavior;
};
struct Split {
  Pattern pattern;
  SplitBehavior behavior;
  bool invert;
};
struct Whitespace {};
struct WhitespaceSplit {};

}  // namespace pre_tokenizers

using PreTokenizer = std::variant<pre_tokenizers::BertPreTokenizer, pre_tokenizers::ByteLevel,
                                  pre_tokenizers::CharDelimiterSplit, pre_tokenizers::Digits,
                                  pre_tokenizers::FixedLength, pre_tokenizers::Metaspace,
                                  pre_tokenizers::Punctuation, pre_tokenizers::Split,
                                  pre_tokenizers::Whitespace, pre_tokenizers::WhitespaceSplit>;

/// Reads the key `pre_tokenizer`, which may be null. A Sequence becomes its elements.
std::vector<PreTokenizer> parse_pre_tokenizers(JsonFields& root);

/// Applies the pre-tokenizers in their order.
void pre_tokenize(const std::vector<PreTokenizer>& parts, Pieces& pieces);

}  // namespace attend::tokenizers
