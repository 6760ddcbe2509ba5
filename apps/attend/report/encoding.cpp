#include "report/encoding.h"

#include "attend/io/utf8.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace attend::app {

std::string shortened(const std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return replace_invalid_utf8(text);
  auto end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return replace_invalid_utf8(text.substr(0, end)) + "…";
}

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto group = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (j < group.size() ? static_cast<unsigned char>(group[j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= group.size() ? kDigits[bits >> (18 - 6 * j) & 63U] : '=';
  }
  return text;
}

double rounded(double value) {
  constexpr double kScale = 1e4;
  return std::round(value * kScale) / kScale;
}

}  // namespace attend::app
