#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"

#include <memory>

namespace attend {

/// File name of the SentencePiece model in a run directory.
inline constexpr const char* kSubwordFile = "tokenizer.model";

/// Subword tokenizer: byte-pair encoding by SentencePiece (Kudo and Richardson 2018,
/// https://arxiv.org/abs/1808.06226) with byte fallback, so that every UTF-8 text is encoded
/// without loss. A token may contain a space only as its first character. Only the token of the
/// byte "\n" contains a line break.
///
/// Requires the SentencePiece library at run time. Training and loading throw std::runtime_error if
/// the library is missing or the program is built with AddressSanitizer. The message names the
/// required package.
///
///     auto tokenizer = SubwordTokenizer::train(text, 1000);
///     tokenizer.decode(tokenizer.encode("any text")) == "any text";
class ATTEND_API SubwordTokenizer : public Tokenizer {
 public:
  /// Maximum size of a model in bytes.
  static constexpr std::size_t kMaxModelBytes = 256 << 20;

  /// Trains a vocabulary of exactly `size` tokens: `<unk>`, the 256 bytes, the characters that
  /// cover 99.95 % of the text, and merges. Training is deterministic. Throws InputError if `size`
  /// is too small or too large for `text`. The message names the limit.
  static SubwordTokenizer train(std::string_view text, int64_t size);

  /// Loads a model returned by `model()`. Throws InputError if `model` is invalid.
  explicit SubwordTokenizer(std::string model);

  /// Returns the model in SentencePiece's file format. In Python, the `SentencePieceProcessor`
  /// created with `model_proto=model` returns the same tokens as `encode`, with two exceptions:
  /// texts that contain the character U+2581, which SentencePiece uses for spaces, and texts with
  /// more than 4192 consecutive bytes without a space or a line break, which `encode` splits.
  const std::string& model() const { return model_; }

  /// Returns the number of tokens.
  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  /// Returns the token ids of `text`. Throws InputError if `text` is not valid UTF-8.
  std::vector<int64_t> encode(std::string_view text) const override;
  /// Returns the bytes of the tokens. If a language model generated the tokens, the bytes may be
  /// invalid UTF-8; for example, they may end in the middle of a character.
  std::string decode(const std::vector<int64_t>& ids) const override;
  /// Returns one token in printable form.
  std::string token(int64_t id) const override;
  /// Returns two files: kTokenizerFile with the content `{"tokenizer": "subword"}`, and
  /// kSubwordFile with the content `model()`.
  std::map<std::string, std::string> files() const override;

 private:
  std::string model_;
  std::shared_ptr<const void> loaded_;  // the model as loaded by SentencePiece
  std::vector<std::string> tokens_;     // bytes of each token
};

}  // namespace attend
