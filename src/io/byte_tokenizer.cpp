#include "attend/io/byte_tokenizer.h"

#include "attend/io/utf8.h"

#include <fmt/format.h>

#include <stdexcept>

namespace attend {

std::vector<int64_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

std::string ByteTokenizer::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const auto id : ids) {
    if (id < 0 || id >= size()) {
      throw std::out_of_range(fmt::format("token id ({}) must be in [0, 255]", id));
    }
    text += static_cast<char>(id);
  }
  return text;
}

std::string ByteTokenizer::token(int64_t id) const {
  return printable(decode({id}));
}

std::map<std::string, std::string> ByteTokenizer::files() const {
  return {{kTokenizerFile, "{\"tokenizer\": \"byte\"}\n"}};
}

}  // namespace attend
