#include "attend/io/tokenizers.h"

#include "attend/input_error.h"
#include "attend/io/byte_tokenizer.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "io/files.h"
#include "io/parse_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attend {
namespace {

namespace fs = std::filesystem;

TokenizerKind kind_in(const nlohmann::json& description) {
  const auto name = description.at("tokenizer").get<std::string>();
  const auto kind = from_string<TokenizerKind>(name);
  if (!kind || kind == TokenizerKind::published) {
    throw InputError(fmt::format(
        "unknown tokenizer '{}', expected character, byte, word or subword", printable(name)));
  }
  const bool has_no_tokens = kind == TokenizerKind::byte || kind == TokenizerKind::subword;
  if (has_no_tokens && description.size() != 1) {
    throw InputError(fmt::format(
        "expected only the key 'tokenizer' for a {} tokenizer, found other keys", name));
  }
  return *kind;
}

TokenizerKind read_kind(const std::string& json) {
  try {
    return kind_in(parse_json(json));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("not a tokenizer file: {}", message_of(error)));
  }
}

std::unique_ptr<Tokenizer> load_subwords(const fs::path& file) {
  auto model = read_bytes(file);
  return with_source(file.string(),
                     [&] { return std::make_unique<SubwordTokenizer>(std::move(model)); });
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerKind kind, std::string_view text,
                                          int64_t max_size, UnknownCharacters unknown) {
  switch (kind) {
    case TokenizerKind::character:
      return std::make_unique<Vocabulary>(Vocabulary::of_characters(text, unknown));
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>();
    case TokenizerKind::word:
      return std::make_unique<Vocabulary>(Vocabulary::of_words(text, max_size));
    case TokenizerKind::subword:
      return std::make_unique<SubwordTokenizer>(SubwordTokenizer::train(text, max_size));
    case TokenizerKind::published:
      throw InputError(
          "the tokenizer 'published' cannot be made from a text: begin with a run that `attend "
          "import` has made (flag --init-from)");
  }
  throw std::logic_error("unknown TokenizerKind");
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& directory) {
  const auto file = directory / kTokenizerFile;
  const auto json = read_bytes(file);
  switch (with_source(file.string(), [&] { return read_kind(json); })) {
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
