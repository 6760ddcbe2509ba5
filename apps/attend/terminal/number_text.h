#pragma once

#include <cstdint>
#include <string>

namespace attend::app {

/// Formats a count with at most three significant digits: "512", "1.23k", "45.6M".
std::string count_text(double count);

/// Formats a size in bytes with a binary unit: "512 B", "1.23 KiB", "45.6 MiB".
std::string bytes_text(double bytes);

/// Formats a duration with three significant digits: "0.402 ms", "37.8 ms", "1.04 s".
std::string seconds_text(double seconds);

}  // namespace attend::app
