#include "attend/io/files.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

namespace attend {

namespace fs = std::filesystem;

void read_in_pieces(const fs::path& path, const std::function<void(std::string_view)>& use) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw InputError(fmt::format("{}: no such file", path.string()));
  if (fs::is_directory(path, ignored)) {
    throw InputError(fmt::format("{}: expected a file, found a directory", path.string()));
  }
  std::ifstream file(path, std::ios::binary);
  std::string piece(std::size_t{1} << 20, '\0');
  do {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    use(std::string_view(piece).substr(0, static_cast<std::size_t>(file.gcount())));
  } while (file);
  if (!file.eof()) throw InputError(fmt::format("{}: cannot be read", path.string()));
}

std::string read_bytes(const fs::path& path) {
  std::string content;
  read_in_pieces(path, [&](std::string_view piece) { content += piece; });
  return content;
}

std::string read_text(const fs::path& path) {
  auto text = read_bytes(path);
  if (text.empty()) throw InputError(fmt::format("{}: the file is empty", path.string()));
  check_utf8(text, path.string());
  return text;
}

void replace_file(const fs::path& path, const std::function<void(const fs::path&)>& write) {
  auto temporary = path;
  temporary += fmt::format(".{}.tmp", ::getpid());
  try {
    write(temporary);
    fs::rename(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

void replace_file(const fs::path& path, std::string_view content) {
  replace_file(path, [&](const fs::path& temporary) {
    std::ofstream file(temporary, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.close();
    if (!file) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
  });
}

}  // namespace attend
