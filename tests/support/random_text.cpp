#include "support/random_text.h"

#include "support/seed.h"

#include <utf8.h>

#include <array>
#include <iterator>

namespace attend {
namespace {

/// Draws a code point, except surrogates, which UTF-8 cannot encode.
std::string random_character() {
  auto code = draw(0, 0x10FFFF - 0x800);
  if (code >= 0xD800) code += 0x800;
  std::string character;
  utf8::unchecked::append(static_cast<uint32_t>(code), std::back_inserter(character));
  return character;
}

std::size_t draw_below(std::size_t size) {
  return static_cast<std::size_t>(draw(0, static_cast<int64_t>(size) - 1));
}

}  // namespace

std::string random_bytes(int64_t max_length) {
  std::string bytes;
  for (auto count = draw(0, max_length); count > 0; --count)
    bytes += static_cast<char>(draw(0, 255));
  return bytes;
}

std::string random_text(int64_t max_length) {
  constexpr std::array<std::string_view, 22> kPieces{
      "the",    "cat",    " ",       " ",          "  ",
      "\n",     "\n",     "\n\n",    "\t",         "\r\n",
      ".",      "\u00E9", "e\u0301", "\u4E16",     "\u0645",
      "\u2581", "\u2585", "\u00A0",  "\U0001F600", "\U0001F468\u200D\U0001F469",
      "<unk>",  "<0x0A>"};
  std::string text;
  for (auto count = draw(0, max_length); count > 0; --count) {
    text += draw(0, 4) == 0 ? random_character() : kPieces[draw_below(kPieces.size())];
  }
  return text;
}

std::string damaged(std::string bytes) {
  for (auto count = draw(1, 4); count > 0 && !bytes.empty(); --count) {
    const auto place = draw_below(bytes.size());
    switch (draw(0, 3)) {
      case 0:
        bytes[place] = static_cast<char>(draw(0, 255));
        break;
      case 1:
        bytes.erase(place, 1);
        break;
      case 2:
        bytes.insert(place, bytes.substr(place, 1 + draw_below(8)));
        break;
      default:
        if (draw(0, 3) == 0) bytes.resize(place);
    }
  }
  return bytes;
}

}  // namespace attend
