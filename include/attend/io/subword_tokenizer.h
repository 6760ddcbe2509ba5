#pragma once

#include "attend/io/tokenizer.h"

#include <memory>

namespace attend {

/// The file of a run directory that holds the subwords, as SentencePiece keeps them.
inline constexpr const char* kSubwordFile = "tokenizer.model";

/// Words and parts of words by SentencePiece (Kudo and Richardson, 2018,
/// https://arxiv.org/abs/1808.06226), which learns them by byte-pair encoding. What it has not
/// learned is encoded by its bytes, each of which is a token, so every UTF-8 text is kept exactly.
/// A token never reaches over a line break; one space may stand at its beginning.
///
/// Needs SentencePiece at run time: everything that makes a tokenizer throws std::runtime_error,
/// naming its package, if it is missing, and in programs built with the address sanitizer.
///
///     auto tokenizer = SubwordTokenizer::learn(text, 1000);
///     tokenizer.decode(tokenizer.encode("any text")) == "any text";
class SubwordTokenizer : public Tokenizer {
 public:
  /// A model of more bytes is refused: no text gives one.
  static constexpr std::size_t kLargestModel = 256 << 20;

  /// Learns a vocabulary of `size` tokens: an unknown one, the 256 bytes, the characters that make
  /// up 99.95 % of the text, and what is joined of them. The same text always gives the same
  /// tokens. Throws InputError if the text gives more or fewer, and tells the bound.
  static SubwordTokenizer learn(std::string_view text, int64_t size);

  /// From what `model` gave. Throws InputError if it is anything else.
  explicit SubwordTokenizer(std::string model);

  /// The bytes of SentencePiece's own file. Its Python package loads them and encodes alike, by
  /// `SentencePieceProcessor(model_proto=...)`, but for the character U+2581, which stands for a
  /// space there.
  const std::string& model() const { return model_; }

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  /// Throws InputError unless the text is UTF-8.
  std::vector<int64_t> encode(std::string_view text) const override;
  /// What a model generates may be cut inside a character, and is then not UTF-8.
  std::string decode(const std::vector<int64_t>& ids) const override;
  std::string token(int64_t id) const override;
  /// kTokenizerFile, which only tells the unit, and kSubwordFile, which holds `model`.
  std::map<std::string, std::string> files() const override;

 private:
  std::string model_;
  std::shared_ptr<const void> loaded_;  // the model as SentencePiece has it
  std::vector<std::string> tokens_;     // the bytes that each stands for
};

}  // namespace attend
