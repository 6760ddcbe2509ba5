#pragma once

#include "tokenizers/fields.h"
#include "tokenizers/pattern.h"
#include "tokenizers/pieces.h"
#include "tokenizers/precompiled_charsmap.h"
#include "tokenizers/unicode.h"

#include <string>
#include <variant>
#include <vector>

namespace attend::tokenizers {

/// The normalizers of tokenizer.json, with the names that they have there. Each changes a text.
namespace normalizers {

/// Cleans, splits and lowercases text as BERT does.
struct BertNormalizer {
  bool clean_text;
  bool handle_chinese_chars;
  bool strip_accents;
  bool lowercase;
};
struct Strip {
  bool left;
  bool right;
};
struct StripAccents {};
struct UnicodeForm {  ///< NFC, NFD, NFKC and NFKD
  NormalForm form;
};
struct Lowercase {};
struct Nmt {};  ///< removes and replaces control characters, as in Google's translation models
struct Precompiled {
  PrecompiledCharsmap charsmap;
};
struct Replace {
  Pattern pattern;
  std::string content;
};
struct Prepend {
  std::string content;
};
struct ByteLevel {};

}  // namespace normalizers

using Normalizer = std::variant<normalizers::BertNormalizer, normalizers::Strip,
                                normalizers::StripAccents, normalizers::UnicodeForm,
                                normalizers::Lowercase, normalizers::Nmt, normalizers::Precompiled,
                                normalizers::Replace, normalizers::Prepend, normalizers::ByteLevel>;

/// Reads the key `normalizer`, which may be null. A Sequence becomes its elements.
std::vector<Normalizer> parse_normalizers(JsonFields& root);

/// Applies the normalizers in their order.
void normalize(const std::vector<Normalizer>& parts, NormalizedText& text);

}  // namespace attend::tokenizers
