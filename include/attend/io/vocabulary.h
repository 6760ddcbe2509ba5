#pragma once

#include "attend/enum_names.h"
#include "attend/io/tokenizer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attend {

/// What one token of a vocabulary is.
enum class TokenUnit {
  character,  ///< a Unicode code point
  word,       ///< what stands between white space (that of ASCII)
};

template <>
struct EnumNames<TokenUnit> {
  static constexpr std::array<std::string_view, 2> names{"character", "word"};
};

/// A list of tokens, numbered from 0: the characters or the words that a model knows.
///
/// Two tokens of a vocabulary of words are special, if it has them: a line break, "\n", is then a
/// token of its own rather than white space; and "<unk>" stands for every word that is unknown.
///
///     auto vocabulary = Vocabulary::of_characters("hello");
///     vocabulary.decode(vocabulary.encode("hole")) == "hole";
class Vocabulary : public Tokenizer {
 public:
  /// Throws InputError if there is no token, one stands twice, or one is not UTF-8.
  Vocabulary(TokenUnit unit, std::vector<std::string> tokens);

  /// The distinct characters of a UTF-8 text, in the order of their code points.
  static Vocabulary of_characters(std::string_view text);

  /// The words of a UTF-8 text, the most frequent first, equally frequent ones in the order of
  /// their code points; before them a line break, if the text has one. If `max_size` is not 0,
  /// there are at most that many tokens, and the first one is "<unk>". Throws InputError if the
  /// text has no word, or if `max_size` leaves room for none.
  ///
  ///     Vocabulary::of_words("b a\nb c", 4) has "<unk>", "\n", "b" and "a"
  static Vocabulary of_words(std::string_view text, int64_t max_size = 0);

  /// Reads what `to_json` wrote. Throws InputError if it is anything else.
  static Vocabulary from_json(std::string_view json);
  /// `{"unit": "character", "tokens": ["a", ...]}`.
  std::string to_json() const;

  TokenUnit unit() const { return unit_; }
  /// The number of a token. Throws InputError, naming it, if it is unknown.
  int64_t id(const std::string& token) const;

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  /// Throws InputError if the text is not UTF-8 or holds a token that is unknown, naming it.
  std::vector<int64_t> encode(std::string_view text) const override;
  /// Characters are joined as they are, words by a space, line breaks without one.
  std::string decode(const std::vector<int64_t>& ids) const override;
  std::string token(int64_t id) const override;
  /// kTokenizerFile, which holds `to_json`.
  std::map<std::string, std::string> files() const override;

 private:
  bool knows(const std::string& token) const { return ids_.count(token) != 0; }

  TokenUnit unit_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace attend
