#pragma once

#include "tokenizers/fields.h"
#include "tokenizers/pattern.h"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attend::tokenizers {

/// The decoders of tokenizer.json, with the names that they have there. Each changes the texts of
/// tokens, which are then joined.
namespace decoders {

struct BpeDecoder {
  std::string suffix;
};
struct ByteFallback {};
struct ByteLevel {};
struct Ctc {
  std::string pad_token;
  std::string word_delimiter_token;
  bool cleanup;
};
struct Fuse {};
struct Metaspace {
  std::string replacement;
  bool drops_first;
};
struct Replace {
  Pattern pattern;
  std::string content;
};
struct Strip {
  std::string content;
  std::size_t start;
  std::size_t stop;
};
struct WordPiece {
  std::string prefix;
  bool cleanup;
};

}  // namespace decoders

using Decoder = std::variant<decoders::BpeDecoder, decoders::ByteFallback, decoders::ByteLevel,
                             decoders::Ctc, decoders::Fuse, decoders::Metaspace, decoders::Replace,
                             decoders::Strip, decoders::WordPiece>;

/// Reads the key `decoder`, which may be null. A Sequence becomes its elements.
std::vector<Decoder> parse_decoders(JsonFields& root);

/// Returns true if the text of a token depends on the next token: a byte token, whose bytes are a
/// text only if all bytes of the run are valid UTF-8.
bool is_byte_token(const std::vector<Decoder>& parts, std::string_view token);

/// Returns the text of tokens. Without decoders, the tokens are joined with blanks.
std::string decode_tokens(const std::vector<Decoder>& parts, std::vector<std::string> tokens);

}  // namespace attend::tokenizers
