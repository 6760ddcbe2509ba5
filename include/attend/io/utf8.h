#pragma once

#include "attend/api.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Throws InputError unless `text` is valid UTF-8. The message begins with `source`, e.g. a file
/// name, and names the first invalid byte and its offset.
ATTEND_API void check_utf8(std::string_view text, std::string_view source = {});

/// Returns `text` without the byte order mark of UTF-8, if it has one. Throws InputError for
/// UTF-16, which is recognized by its byte order mark, or by NUL as every other byte of the first
/// four. `source` is the beginning of the message, e.g. a file name.
ATTEND_API std::string_view without_byte_order_mark(std::string_view text,
                                                    std::string_view source = {});

/// Position in a text. Columns are counted in code points, lines and columns from 1.
struct TextPosition {
  std::size_t offset = 0;  ///< in bytes
  int64_t line = 1;        ///< number of the line
  int64_t column = 1;      ///< number of the code point in its line
};

/// Returns the position of a byte of `text`, which itself begins at `begin` of a larger text. The
/// text before the byte must be valid UTF-8.
///
///     position_in("a\nbc", 3).column == 2
ATTEND_API TextPosition position_in(std::string_view text, std::size_t offset,
                                    const TextPosition& begin = {});

/// Returns "line 3, column 7".
ATTEND_API std::string line_and_column(const TextPosition& position);
/// Returns line and column of a byte of a text; see `position_in`.
ATTEND_API std::string line_and_column(std::string_view text, std::size_t offset);

/// Splits UTF-8 text into code points. Throws InputError if `text` is not valid UTF-8.
///
///     split_characters("né")[1] == "é"
ATTEND_API std::vector<std::string_view> split_characters(std::string_view text);

/// Returns `bytes` with control characters, characters that change the direction or lines of a text
/// or have no width (such as U+202E), and invalid UTF-8 escaped in hexadecimal, such as `\x0a`. A
/// terminal then shows a text of a foreign file as it is.
///
///     printable("a\nb") == "a\\x0ab"
ATTEND_API std::string printable(std::string_view bytes);

/// Returns `bytes` with invalid UTF-8 replaced by U+FFFD.
ATTEND_API std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace attend
