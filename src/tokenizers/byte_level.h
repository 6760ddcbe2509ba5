#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attend::tokenizers {

/// Appends `text` with each byte replaced by a printable character, as in the vocabularies of GPT-2
/// and its successors: printable Latin-1 characters stand for themselves, other bytes become
/// characters from U+0100, in their order.
void append_byte_level(std::string& result, std::string_view text);

/// Appends the bytes that the characters of `text` stand for. Returns false and appends nothing if
/// a character stands for no byte.
bool append_bytes(std::string& result, std::string_view text);

}  // namespace attend::tokenizers
