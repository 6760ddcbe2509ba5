#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"

#include <filesystem>
#include <memory>

namespace attend {

/// Creates a tokenizer for a UTF-8 text. `max_size` is the maximum vocabulary size for words, 0 =
/// no limit, and the exact one for subwords; it is ignored otherwise. Throws InputError if `text`
/// is not valid UTF-8 or the vocabulary size does not suit it.
///
///     auto tokenizer = make_tokenizer(TokenizerKind::subword, text, 1000);
ATTEND_API std::unique_ptr<Tokenizer> make_tokenizer(TokenizerKind kind, std::string_view text,
                                                     int64_t max_size);

/// Loads a tokenizer from a directory with the files of `Tokenizer::files`. Throws InputError,
/// naming the file, if a file is missing or invalid.
///
///     auto tokenizer = load_tokenizer("runs/sort");
ATTEND_API std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);

}  // namespace attend
