#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::tokenizers {

/// Tokens of a vocabulary: maps texts to ids and back. The texts are in one string, since most
/// vocabularies have more than 30,000 of them.
class TokenTable {
 public:
  static constexpr int64_t kMaxId = INT32_MAX - 1;

  struct Token {
    int32_t id;
    uint32_t begin;  ///< of the text in `texts_`
    uint32_t size;
  };

  /// Adds a token. The tokens may be added in any order, before `finish`.
  void add(std::string_view text, int64_t id);
  /// Sorts the tokens. Throws InputError if two tokens have the same id or, unless
  /// `allows_equal_texts`, the same text. If texts may be equal, `find` returns the last id.
  void finish(bool allows_equal_texts = false);

  std::optional<int32_t> find(std::string_view text) const;
  /// Returns the text of a token, or nothing if no token has the id.
  std::optional<std::string_view> text(int64_t id) const;
  std::size_t size() const { return tokens_.size(); }
  /// Size of the longest text in bytes.
  std::size_t longest() const { return longest_; }
  /// The tokens, by id.
  const std::vector<Token>& tokens() const { return tokens_; }
  std::string_view text_of(const Token& token) const {
    return std::string_view(texts_).substr(token.begin, token.size);
  }

 private:
  std::size_t slot_of(std::string_view text) const;

  std::string texts_;
  std::vector<Token> tokens_;
  std::vector<uint32_t> slots_;  // hash table of indices in tokens_, plus 1; 0 is a free slot
  std::size_t longest_ = 0;
};

}  // namespace attend::tokenizers
