#include "attend/io/tokenizers.h"

#include "attend/input_error.h"
#include "attend/io/byte_tokenizer.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/vocabulary.h"
#include "io/files.h"
#include "io/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attend {
namespace {

namespace fs = std::filesystem;

TokenizerKind unit_in(const nlohmann::json& description) {
  const auto name = description.at("unit").get<std::string>();
  const auto unit = from_string<TokenizerKind>(name);
  if (!unit) {
    throw InputError(fmt::format("unknown unit '{}': expected character, byte, word or subword",
                                 printable(name)));
  }
  const bool is_whole = unit == TokenizerKind::byte || unit == TokenizerKind::subword;
  if (is_whole && description.size() != 1) {
    throw InputError(fmt::format("{}s have no other key than unit", name));
  }
  return *unit;
}

TokenizerKind read_unit(const std::string& json) {
  try {
    return unit_in(nlohmann::json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("not a tokenizer: {}", error.what()));
  }
}

std::unique_ptr<Tokenizer> load_subwords(const fs::path& file) {
  auto model = read_bytes(file);
  return with_source(file.string(),
                     [&] { return std::make_unique<SubwordTokenizer>(std::move(model)); });
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerKind unit, std::string_view text,
                                          int64_t max_size) {
  switch (unit) {
    case TokenizerKind::character:
      return std::make_unique<Vocabulary>(Vocabulary::of_characters(text));
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>();
    case TokenizerKind::word:
      return std::make_unique<Vocabulary>(Vocabulary::of_words(text, max_size));
    case TokenizerKind::subword:
      return std::make_unique<SubwordTokenizer>(SubwordTokenizer::learn(text, max_size));
  }
  throw std::logic_error("a unit of text without a tokenizer");
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& directory) {
  const auto file = directory / kTokenizerFile;
  const auto json = read_bytes(file);
  switch (with_source(file.string(), [&] { return read_unit(json); })) {
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>();
    case TokenizerKind::subword:
      return load_subwords(directory / kSubwordFile);
    default:
      return with_source(file.string(),
                         [&] { return std::make_unique<Vocabulary>(Vocabulary::from_json(json)); });
  }
}

}  // namespace attend
