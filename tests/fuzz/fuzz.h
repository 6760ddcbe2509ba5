#pragma once

#include "attend/input_error.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace attend::fuzz {

/// Calls `read` with the input. An invalid input must throw an InputError with a message. libFuzzer
/// reports any other exception as a crash.
template <typename Read>
int check(const uint8_t* data, std::size_t size, const Read& read) {
  try {
    read(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const InputError& error) {
    if (*error.what() == '\0') std::abort();
  }
  return 0;
}

/// Writes the input to a new file, for readers that need one. `replace_file`, and on some file
/// systems a file that is truncated, would wait for the disk.
inline void write_input(const std::filesystem::path& path, std::string_view input) {
  std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  file.write(input.data(), static_cast<std::streamsize>(input.size()));
}

}  // namespace attend::fuzz
