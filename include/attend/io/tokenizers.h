#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace attend {

/// Creates a tokenizer for a UTF-8 text. `max_size` is the maximum vocabulary size of a word
/// tokenizer (0 = no limit), and the exact vocabulary size of a subword tokenizer. A character
/// tokenizer ignores `max_size`. A byte tokenizer ignores `text` and `max_size`. Only a character
/// tokenizer uses `unknown`. Throws InputError if an argument that the tokenizer uses is invalid:
/// if `text` is not valid UTF-8 or contains no tokens, or if `max_size` is too small or too large
/// for `text`. Also throws InputError for TokenizerKind::published.
///
///     auto tokenizer = make_tokenizer(TokenizerKind::subword, text, 1000);
ATTEND_API std::unique_ptr<Tokenizer> make_tokenizer(
    TokenizerKind kind, std::string_view text, int64_t max_size,
    UnknownCharacters unknown = UnknownCharacters::error);

/// Loads a tokenizer from a directory that contains the files returned by `Tokenizer::files`.
/// Throws InputError if a file is missing or invalid. The message names the file.
///
///     auto tokenizer = load_tokenizer("runs/sort");
ATTEND_API std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);

/// Makes a tokenizer from the files that `Tokenizer::files` returns. Throws InputError if a file is
/// missing or invalid, and for TokenizerKind::published. The message names the file.
///
///     auto same = parse_tokenizer(tokenizer.files());
ATTEND_API std::unique_ptr<Tokenizer> parse_tokenizer(
    const std::map<std::string, std::string>& files);

}  // namespace attend
