#pragma once

#include "attend/enum_names.h"
#include "attend/io/tokenizer.h"

#include <filesystem>
#include <memory>

namespace attend {

/// What a token of a text is.
enum class TokenizerKind {
  character,  ///< a code point of the text: Vocabulary::of_characters
  byte,       ///< ByteTokenizer
  word,       ///< what stands between white space, and line breaks: Vocabulary::of_words
  subword,    ///< a word or a part of one: SubwordTokenizer
};

/// The tokenizer of a UTF-8 text. `max_size` counts for words, where 0 is no limit, and for
/// subwords, which have exactly that many tokens. Throws InputError as the makers of each unit do.
///
///     auto tokenizer = make_tokenizer(TokenizerKind::subword, read_text("corpus.txt"), 1000);
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerKind unit, std::string_view text,
                                          int64_t max_size);

/// Loads what `Tokenizer::files` gave from a directory that holds it. Throws InputError, naming the
/// file, if it is missing or is anything else.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);

template <>
struct EnumNames<TokenizerKind> {
  static constexpr std::array<std::string_view, 4> names{"character", "byte", "word", "subword"};
};

}  // namespace attend
