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

/// Calls `load`, putting the name of the file in front of what it says is wrong.
template <typename Load>
std::unique_ptr<Tokenizer> within(const fs::path& file, const Load& load) {
  try {
    return load();
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

/// The value of `unit`, the key that each kind of tokenizer has.
TextUnit unit_of(const nlohmann::json& description) {
  const auto name = description.at("unit").get<std::string>();
  const auto unit = from_string<TextUnit>(name);
  if (!unit) {
    throw InputError(fmt::format("unknown unit '{}': expected character, byte, word or subword",
                                 printable(name)));
  }
  return *unit;
}

TextUnit read_unit(const std::string& json) {
  try {
    const auto description = nlohmann::json::parse(json);
    const auto unit = unit_of(description);
    if (unit == TextUnit::byte && description.size() != 1) {
      throw InputError("bytes have no other key than unit");
    }
    if (unit == TextUnit::subword &&
        (description.size() != 2 || description.at("model") != kSubwordModelFile)) {
      throw InputError(
          fmt::format("subwords have the keys unit and model, which is {}", kSubwordModelFile));
    }
    return unit;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("not a tokenizer: {}", error.what()));
  }
}

std::unique_ptr<Tokenizer> load_subwords(const fs::path& file) {
  const auto model = read_bytes(file);
  return within(file, [&] {
    return std::make_unique<SubwordTokenizer>(SubwordTokenizer::from_model(model));
  });
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
  auto unit = TextUnit::subword;
  auto tokenizer = within(file, [&]() -> std::unique_ptr<Tokenizer> {
    unit = read_unit(json);
    if (unit == TextUnit::subword) return nullptr;
    if (unit == TextUnit::byte) return std::make_unique<ByteTokenizer>();
    return std::make_unique<Vocabulary>(Vocabulary::from_json(json));
  });
  return tokenizer ? std::move(tokenizer) : load_subwords(directory / kSubwordModelFile);
}

}  // namespace attend::train
