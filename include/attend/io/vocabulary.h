#pragma once

#include "attend/api.h"
#include "attend/input_error.h"
#include "attend/io/tokenizer.h"
#include "attend/io/utf8.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace attend {

/// Thrown by `Vocabulary::encode` for an unknown character or word.
class ATTEND_API UnknownTokenError : public InputError {
 public:
  /// The message is "PROBLEM at LINE AND COLUMN: REASON", or "PROBLEM: REASON" without `place`.
  /// `options`: see `with_options`.
  UnknownTokenError(std::string problem, const std::optional<TextPosition>& place,
                    std::string reason, std::string options)
      : InputError(problem + (place ? " at " + line_and_column(*place) : "") + ": " + reason),
        problem_(std::move(problem)),
        place_(place),
        reason_(std::move(reason)),
        options_(std::move(options)) {}

  /// Returns the error without the position in the encoded text, for a caller that names a position
  /// in a file.
  UnknownTokenError without_place() const { return {problem_, std::nullopt, reason_, options_}; }
  /// Returns the error with the position in a text of which the encoded text is a part. `begin`:
  /// position of this part.
  UnknownTokenError in_text(const TextPosition& begin) const {
    auto place = place_.value_or(TextPosition());
    place.offset += begin.offset;
    if (place.line == 1) place.column += begin.column - 1;
    place.line += begin.line - 1;
    return {problem_, place, reason_, options_};
  }
  /// Returns the error with a message that also names the options of a recipe with which a
  /// model accepts any character or word. These options do not help if the tokenizer of a run must
  /// not change.
  UnknownTokenError with_options() const {
    return {problem_, place_, reason_ + "; " + options_, options_};
  }
  /// Returns the error with a message that also says what to do if the tokenizer is that of a run,
  /// which does not change.
  UnknownTokenError with_fixed_tokenizer() const {
    return {problem_, place_,
            reason_ +
                " of the run, which does not change; remove it from the file, or train a new "
                "model on this file",
            options_};
  }

 private:
  std::string problem_;
  std::optional<TextPosition> place_;
  std::string reason_;
  std::string options_;
};

/// Returns `function()`. If `function` throws an UnknownTokenError `error`, throws
/// `change(error)` instead.
///
///     const auto encode = [&] { return tokenizer.encode("hole"); };
///     changing_unknown_token(&UnknownTokenError::with_options, encode);
template <typename Function>
auto changing_unknown_token(UnknownTokenError (UnknownTokenError::*change)() const,
                            const Function& function) {
  try {
    return function();
  } catch (const UnknownTokenError& error) {
    const auto changed = (error.*change)();
    throw changed;
  }
}

/// Token of a `Vocabulary` that replaces masked tokens.
inline constexpr const char* kMaskToken = "[MASK]";

/// Character or word tokenizer with an explicit list of tokens.
///
/// If a vocabulary contains the special token "<unk>", unknown characters or words are encoded as
/// this token. Otherwise, they are errors. If a word vocabulary contains the special token "\n",
/// line breaks are encoded as this token. Otherwise, line breaks are whitespace. If a character
/// vocabulary contains "\n" but not "\r", as one made from a text with LF line breaks, the line
/// break CR LF is encoded as "\n".
///
///     auto vocabulary = Vocabulary::of_characters("hello");
///     vocabulary.decode(vocabulary.encode("hole")) == "hole";
class ATTEND_API Vocabulary : public Tokenizer {
 public:
  /// Creates a vocabulary. The id of a token is its index in `tokens`. Throws InputError if `kind`
  /// is not character or word, or if `tokens` is empty or contains duplicates or invalid UTF-8.
  Vocabulary(TokenizerKind kind, std::vector<std::string> tokens);

  /// Returns a vocabulary of the distinct characters of a UTF-8 text, in code point order. With
  /// UnknownCharacters::replace, the token "<unk>" precedes the characters.
  static Vocabulary of_characters(std::string_view text,
                                  UnknownCharacters unknown = UnknownCharacters::error);

  /// Returns a vocabulary of the words of a UTF-8 text. The most frequent words come first. Words
  /// of equal frequency are in code point order. If the text contains line breaks, the token "\n"
  /// precedes the words. If `max_size` > 0, the vocabulary has at most `max_size` tokens and begins
  /// with "<unk>". Throws InputError if the text contains no words, or if `max_size` is too small
  /// for the special tokens and one word.
  ///
  ///     Vocabulary::of_words("b a\nb c", 4);  // tokens "<unk>", "\n", "b", "a"
  static Vocabulary of_words(std::string_view text, int64_t max_size = 0);

  /// Returns a copy with `token` as the last token. Throws InputError if it is a token already.
  ///
  ///     auto masked = Vocabulary::of_words("a b").with_token(kMaskToken);
  Vocabulary with_token(const std::string& token) const;

  /// Creates a vocabulary from the output of `to_json`. Throws InputError if `json` is invalid.
  static Vocabulary from_json(std::string_view json);
  /// Returns JSON such as `{"tokenizer": "character", "tokens": ["a", ...]}`.
  std::string to_json() const;

  /// Returns TokenizerKind::character or TokenizerKind::word.
  TokenizerKind kind() const { return kind_; }
  /// Returns the id of a token. Throws InputError if the vocabulary does not contain the token. The
  /// message names the token.
  int64_t id(const std::string& token) const;

  /// Returns the number of tokens.
  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  /// Returns the token ids of `text`. Throws InputError if `text` is not valid UTF-8, and
  /// UnknownTokenError if a token is unknown and the vocabulary has no "<unk>".
  std::vector<int64_t> encode(std::string_view text) const override;
  /// Returns the text of the tokens. Characters are concatenated. Words are joined with spaces, but
  /// no space is added before or after a line break.
  std::string decode(const std::vector<int64_t>& ids) const override;
  /// Returns one token in printable form.
  std::string token(int64_t id) const override;
  /// Returns the id of "<unk>", if it is a token.
  std::optional<int64_t> unknown_token() const override;
  /// Returns the id of `kMaskToken`, if it is a token.
  std::optional<int64_t> mask_token() const override;
  /// Returns one file: its name is kTokenizerFile and its content is `to_json()`.
  std::map<std::string, std::string> files() const override;

 private:
  bool knows(const std::string& token) const { return ids_.count(token) != 0; }

  TokenizerKind kind_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int64_t> ids_;
  /// Ids of the tokens that are one ASCII character, by character; -1 = no token. Most characters
  /// are ASCII, and this table is faster than the map.
  std::array<int64_t, 128> ascii_ids_;
};

}  // namespace attend
