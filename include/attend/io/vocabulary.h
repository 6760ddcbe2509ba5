#pragma once

#include "attend/enum_names.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attend {

/// What one token of a text is.
enum class TokenUnit {
  character,  ///< a Unicode code point
  word,       ///< what stands between white space
};

template <>
struct EnumNames<TokenUnit> {
  static constexpr std::array<std::string_view, 2> names{"character", "word"};
};

/// The tokens that a model knows, numbered from 0, and the way between text and numbers.
///
///     auto vocabulary = Vocabulary::of_characters("hello");
///     vocabulary.decode(vocabulary.encode("hole")) == "hole";
class Vocabulary {
 public:
  /// Throws InputError if there is no token, or one stands twice.
  Vocabulary(TokenUnit unit, std::vector<std::string> tokens);

  /// The distinct characters of a UTF-8 text, in the order of their code points.
  static Vocabulary of_characters(std::string_view text);

  /// Reads what `to_json` wrote. Throws InputError if it is anything else.
  static Vocabulary from_json(std::string_view json);
  /// `{"unit": "character", "tokens": ["a", ...]}`.
  std::string to_json() const;

  TokenUnit unit() const { return unit_; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  /// The text of token `id`, which must be in 0 .. size()-1.
  const std::string& token(int64_t id) const { return tokens_.at(static_cast<std::size_t>(id)); }
  /// The number of a token. Throws InputError, naming it, if it is unknown.
  int64_t id(const std::string& token) const;

  /// Throws InputError if the text is not UTF-8 or holds a token that is unknown, naming it.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Characters are joined as they are, words by a space.
  std::string decode(const std::vector<int64_t>& ids) const;

 private:
  TokenUnit unit_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace attend
