#pragma once

#include "attend/io/tokenizer.h"

#include <memory>

namespace attend::train {

/// The file of a run directory that holds a subword model, as SentencePiece writes and reads it.
inline constexpr const char* kSubwordModelFile = "tokenizer.model";

/// Words and parts of words, learned by byte-pair encoding (Sennrich et al., 2016,
/// https://arxiv.org/abs/1508.07909) with SentencePiece. Text is kept exactly: white space is not
/// changed, a line break is a token of its own, and what is not in the vocabulary becomes the bytes
/// of its UTF-8, which all have tokens. What comes out of `decode` is UTF-8; bytes that are not
/// become U+FFFD.
///
///     auto tokenizer = SubwordTokenizer::learn(text, 1000);
///     tokenizer.decode(tokenizer.encode("any text")) == "any text";
class SubwordTokenizer : public Tokenizer {
 public:
  /// Learns a vocabulary of `size` tokens from a UTF-8 text, always the same from the same text.
  /// Throws InputError if the text is not UTF-8, or if the size is less than its characters and the
  /// 256 bytes need, or more than its words have parts; the message tells the bound.
  static SubwordTokenizer learn(std::string_view text, int64_t size);

  /// Reads what `model` gave. Throws InputError if it is anything else.
  static SubwordTokenizer from_model(std::string_view model);
  /// A SentencePiece model: what stands in kSubwordModelFile.
  std::string model() const;

  int64_t size() const override;
  /// Throws InputError if the text is not UTF-8.
  std::vector<int64_t> encode(std::string_view text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  /// A space stands as U+2581 (▁), as is the custom with SentencePiece.
  std::string token(int64_t id) const override;
  /// kTokenizerFile, `{"unit": "subword", "model": "tokenizer.model"}`, and kSubwordModelFile.
  std::map<std::string, std::string> files() const override;

 private:
  struct Model;
  explicit SubwordTokenizer(std::shared_ptr<const Model> loaded);

  std::shared_ptr<const Model> model_;
};

}  // namespace attend::train
