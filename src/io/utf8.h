#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Throws InputError, naming the first wrong byte and its offset, unless the text is UTF-8.
/// `source` stands in front of the message: where the text is from.
void check_utf8(std::string_view text, std::string_view source = {});

/// The code points of a text. Throws InputError if it is not UTF-8.
///
///     split_characters("né") gives "n" and "é"
std::vector<std::string_view> split_characters(std::string_view text);

/// Bytes for people to read: control characters and what is not UTF-8 as \x0a, the rest as it is.
std::string printable(std::string_view bytes);

/// The bytes with U+FFFD for what is not UTF-8, as a model of bytes may write.
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace attend
