#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// File name of the tokenizer in a run directory, the output directory of a training run. The file
/// contains a JSON object. The value of its key `tokenizer` is the name of a `TokenizerKind`.
inline constexpr const char* kTokenizerFile = "tokenizer.json";

/// Kinds of tokenizers.
enum class TokenizerKind {
  character,  ///< one token per Unicode code point: Vocabulary::of_characters
  byte,       ///< one token per byte: ByteTokenizer
  word,       ///< one token per word, and one per line break: Vocabulary::of_words
  subword,    ///< byte-pair encoding by SentencePiece: SubwordTokenizer
  published,  ///< that of a published model: PublishedTokenizer
};

/// Names of `TokenizerKind` in recipes, flags and tokenizer files.
template <>
struct EnumNames<TokenizerKind> {
  static constexpr std::array<std::string_view, 5> names{"character", "byte", "word", "subword",
                                                         "published"};
};

/// Texts that a tokenizer accepts.
enum class TextEncoding {
  utf8,   ///< UTF-8 without NUL
  bytes,  ///< any bytes
};

/// Returns the texts that a tokenizer of this kind accepts: any bytes for TokenizerKind::byte.
constexpr TextEncoding text_encoding(TokenizerKind kind) {
  return kind == TokenizerKind::byte ? TextEncoding::bytes : TextEncoding::utf8;
}

/// Encoding of a character that is not in the vocabulary of a character tokenizer.
enum class UnknownCharacters {
  error,    ///< InputError
  replace,  ///< the token "<unk>"
};

/// Names of `UnknownCharacters` in recipes and flags.
template <>
struct EnumNames<UnknownCharacters> {
  static constexpr std::array<std::string_view, 2> names{"error", "replace"};
};

/// Interface of tokenizers, which map text to token ids in [0, size) and back.
///
///     tokenizer.decode(tokenizer.encode("hole")) == "hole";
class ATTEND_API Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns the vocabulary size.
  virtual int64_t size() const = 0;
  /// Returns the token ids of `text`. Throws InputError if the tokenizer cannot encode `text`. If
  /// the reason is a token that is not in the vocabulary, the message names this token.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  /// Returns the text of the tokens. Throws std::out_of_range if an id is not in [0, size).
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;
  /// Returns one token in printable form, with control characters escaped in hexadecimal. Throws
  /// std::out_of_range if `id` is not in [0, size).
  virtual std::string token(int64_t id) const = 0;
  /// Returns the id of the token for unknown characters or words, if there is one.
  virtual std::optional<int64_t> unknown_token() const { return std::nullopt; }
  /// Returns the id of the token that replaces masked tokens, such as "[MASK]", if there is one.
  virtual std::optional<int64_t> mask_token() const { return std::nullopt; }
  /// Returns the files that `load_tokenizer` reads, as a map from file name to content. One of the
  /// files is kTokenizerFile.
  virtual std::map<std::string, std::string> files() const = 0;
};

/// True if a text has tokens, and all of them are the tokenizer's unknown token.
inline bool all_unknown(const Tokenizer& tokenizer, const std::vector<int64_t>& tokens) {
  const auto unknown = tokenizer.unknown_token();
  return unknown && !tokens.empty() &&
         std::ranges::all_of(tokens, [&](int64_t token) { return token == *unknown; });
}

}  // namespace attend
