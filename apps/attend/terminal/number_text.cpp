#include "terminal/number_text.h"

#include <fmt/format.h>

#include <array>

namespace attend::app {
namespace {

template <std::size_t Size>
std::string scaled(double value, double base, const std::array<const char*, Size>& units) {
  std::size_t unit = 0;
  // Without the 0.5, 999.6 would print as 1000 instead of 1.00k.
  while (value >= base - 0.5 && unit + 1 < Size) {
    value /= base;
    ++unit;
  }
  const bool whole = unit == 0 && value == static_cast<double>(static_cast<int64_t>(value));
  const int decimals = whole || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, decimals, units[unit]);
}

}  // namespace

std::string count_text(double count) {
  return scaled(count, 1000, std::array{"", "k", "M", "G", "T", "P"});
}

std::string bytes_text(double bytes) {
  return scaled(bytes, 1024, std::array{" B", " KiB", " MiB", " GiB", " TiB", " PiB"});
}

std::string seconds_text(double seconds) {
  return seconds < 0.9995 ? fmt::format("{:.3g} ms", 1000 * seconds)
                          : fmt::format("{:.3g} s", seconds);
}

}  // namespace attend::app
