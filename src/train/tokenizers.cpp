#include "attend/train/tokenizers.h"

#include "attend/input_error.h"
#include "attend/io/byte_tokenizer.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "attend/train/subword_tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

TextUnit unit_in(const nlohmann::json& description) {
  const auto name = description.at("unit").get<std::string>();
  const auto unit = from_string<TextUnit>(name);
  if (!unit) {
    throw InputError(fmt::format("unknown unit '{}': expected character, byte, word or subword",
                                 printable(name)));
  }
  const bool is_whole = unit == TextUnit::byte || unit == TextUnit::subword;
  if (is_whole && description.size() != 1) {
    throw InputError(fmt::format("{}s have no other key than unit", name));
  }
  return *unit;
}

TextUnit read_unit(const std::string& json) {
  try {
    return unit_in(nlohmann::json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("not a tokenizer: {}", error.what()));
  }
}

std::unique_ptr<Tokenizer> load_subwords(const fs::path& file) {
  auto model = read_bytes(file);
  return naming(file.string(),
                [&] { return std::make_unique<SubwordTokenizer>(std::move(model)); });
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TextUnit unit, std::string_view text, int64_t max_size) {
  switch (unit) {
    case TextUnit::character:
      return std::make_unique<Vocabulary>(Vocabulary::of_characters(text));
    case TextUnit::byte:
      return std::make_unique<ByteTokenizer>();
    case TextUnit::word:
      return std::make_unique<Vocabulary>(Vocabulary::of_words(text, max_size));
    case TextUnit::subword:
      return std::make_unique<SubwordTokenizer>(SubwordTokenizer::learn(text, max_size));
  }
  throw std::logic_error("a unit of text without a tokenizer");
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& directory) {
  const auto file = directory / kTokenizerFile;
  const auto json = read_bytes(file);
  switch (naming(file.string(), [&] { return read_unit(json); })) {
    case TextUnit::byte:
      return std::make_unique<ByteTokenizer>();
    case TextUnit::subword:
      return load_subwords(directory / kSubwordFile);
    default:
      return naming(file.string(),
                    [&] { return std::make_unique<Vocabulary>(Vocabulary::from_json(json)); });
  }
}

}  // namespace attend::train
