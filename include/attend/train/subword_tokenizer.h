#pragma once

#include "attend/io/tokenizer.h"

#include <unordered_map>
#include <utility>

namespace attend::train {

/// Words and parts of words by byte-pair encoding (Sennrich et al., 2016,
/// https://arxiv.org/abs/1508.07909) on bytes: tokens 0 to 255 are the bytes, each further one
/// joins two before it. So anything can be encoded, and is kept exactly. A token never reaches over
/// a line break, nor from letters to digits or to signs; one space may stand at its beginning.
///
///     auto tokenizer = SubwordTokenizer::learn(text, 1000);
///     tokenizer.decode(tokenizer.encode("any text")) == "any text";
class SubwordTokenizer : public Tokenizer {
 public:
  /// The numbers of the two tokens that another one joins.
  using Merge = std::pair<int64_t, int64_t>;

  /// Learns a vocabulary of `size` tokens, each but the bytes standing at least twice in the text
  /// when it is made; of equally frequent pairs the one of the smaller numbers comes first. Throws
  /// InputError if that is fewer than the 256 bytes, or more than the text gives, and tells the
  /// bound.
  static SubwordTokenizer learn(std::string_view text, int64_t size);

  /// Merge i makes token 256 + i. Throws InputError if one is of tokens that are not made before
  /// it, stands twice, or makes a token longer than any that is learned (67 bytes).
  explicit SubwordTokenizer(std::vector<Merge> merges);

  /// Reads what `to_json` wrote. Throws InputError if it is anything else.
  static SubwordTokenizer from_json(std::string_view json);
  /// `{"unit":"subword","merges":[[116,104],...]}`.
  std::string to_json() const;

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  std::vector<int64_t> encode(std::string_view text) const override;
  /// What a model generates may be cut inside a character, and is then not UTF-8.
  std::string decode(const std::vector<int64_t>& ids) const override;
  std::string token(int64_t id) const override;
  /// kTokenizerFile, which holds `to_json`.
  std::map<std::string, std::string> files() const override;

 private:
  std::vector<int64_t> encode_chunk(std::string_view chunk) const;

  std::vector<Merge> merges_;
  std::vector<std::string> tokens_;
  std::unordered_map<uint64_t, int64_t> joined_;  // the token that joins a pair
};

}  // namespace attend::train
