#pragma once

#include "attend/tokenizers/text_tokenizer.h"
#include "tokenizers/fields.h"
#include "tokenizers/normalizers.h"
#include "tokenizers/pieces.h"
#include "tokenizers/token_table.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::tokenizers {

/// Tokens that are found in a text before the model splits it.
class AddedVocabulary {
 public:
  /// Reads the key `added_tokens`.
  AddedVocabulary(JsonFields& root, const TokenTable& tokens,
                  const std::vector<Normalizer>& normalizers);

  /// Returns the added tokens of a text, and the normalized texts between them. `text` must be
  /// valid UTF-8.
  Pieces split(std::string_view text, const std::vector<Normalizer>& normalizers) const;

  std::optional<int32_t> find(std::string_view token) const;
  /// Returns the text of an added token for the decoder: the normalized text, if it is normalized.
  const std::string* text(int64_t id) const;
  /// Returns true if `text` is the content of a special token.
  bool is_special(std::string_view text) const;
  /// Number of added tokens that are not in the vocabulary of the model.
  int64_t new_tokens() const { return new_tokens_; }
  std::vector<AddedToken> tokens() const;

 private:
  struct Token {
    AddedToken token;
    std::string text;  ///< normalized, if the token is normalized
    bool single_word;
    bool lstrip;
    bool rstrip;
  };

  /// Finds the longest text at each place of a text, from left to right.
  class Matcher {
   public:
    void add(std::string_view text, int32_t id);
    bool contains(std::string_view text) const { return texts_.contains(text); }
    bool is_empty() const { return texts_.empty(); }
    /// Sets `begin` to the next match from `begin`. Returns its size and id, or size 0.
    std::pair<std::size_t, int32_t> next(std::string_view text, std::size_t& begin) const;

   private:
    std::map<std::string, int32_t, std::less<>> texts_;
    /// Sizes of the texts that begin with a byte, the largest first.
    std::vector<std::vector<std::size_t>> sizes_ = std::vector<std::vector<std::size_t>>(256);
  };

  template <typename Emit>
  void find_tokens(std::string_view text, const Matcher& matcher, const Emit& emit) const;

  std::map<int32_t, Token> tokens_;
  std::map<std::string, int32_t, std::less<>> ids_;
  std::map<std::string, bool, std::less<>> special_;
  Matcher raw_;         // matches the text before normalization
  Matcher normalized_;  // matches the normalized text
  int64_t new_tokens_ = 0;
};

}  // namespace attend::tokenizers
