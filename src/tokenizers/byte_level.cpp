#include "tokenizers/byte_level.h"

#include "tokenizers/characters.h"

#include <array>

namespace attend::tokenizers {
namespace {

struct ByteCharacters {
  std::array<char32_t, 256> character{};
  std::array<int16_t, 0x180> byte{};  // -1 if a character stands for no byte

  ByteCharacters() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (std::size_t i = 0; i < character.size(); ++i) {
      const bool is_printable =
          (i >= '!' && i <= '~') || (i >= 0xA1 && i <= 0xAC) || (i >= 0xAE && i <= 0xFF);
      character[i] = is_printable ? static_cast<char32_t>(i) : next++;
      byte[character[i]] = static_cast<int16_t>(i);
    }
  }
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters table;
  return table;
}

}  // namespace

void append_byte_level(std::string& result, std::string_view text) {
  const auto& table = byte_characters();
  for (const char byte : text) {
    append_character(result, table.character[static_cast<unsigned char>(byte)]);
  }
}

bool append_bytes(std::string& result, std::string_view text) {
  const auto& table = byte_characters();
  const auto size = result.size();
  for (std::size_t at = 0; at < text.size();) {
    const auto character = next_character(text, at);
    if (character >= table.byte.size() || table.byte[character] < 0) {
      result.resize(size);
      return false;
    }
    result += static_cast<char>(table.byte[character]);
  }
  return true;
}

}  // namespace attend::tokenizers
