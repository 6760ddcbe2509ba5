#include "report/label.h"

#include "io/utf8.h"

#include <cmath>

namespace attend::app {

std::string shortened(const std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return replace_invalid_utf8(text);
  auto end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return replace_invalid_utf8(text.substr(0, end)) + "…";
}

double rounded(double value) {
  constexpr double kScale = 1e4;
  return std::round(value * kScale) / kScale;
}

}  // namespace attend::app
