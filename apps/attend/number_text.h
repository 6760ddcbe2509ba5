#pragma once

#include <cstdint>
#include <string>

namespace attend::app {

/// A count with three digits: "512", "1.23 k", "45.6 M".
std::string count_text(double count);

/// Bytes with three digits: "512 B", "1.23 KiB", "45.6 MiB".
std::string bytes_text(double bytes);

}  // namespace attend::app
