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

#include <functional>

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

/// Makes a tokenizer from its files. `read` returns the content of a file with this name; errors
/// name the files in `folder`.
std::unique_ptr<Tokenizer> make_from_files(
    const fs::path& folder, const std::function<std::string(const char* name)>& read) {
  const auto file = (folder / kTokenizerFile).string();
  const auto json = read(kTokenizerFile);
  switch (with_source(file, [&] { return read_kind(json); })) {
    case TokenizerKind::byte:
      return std::make_unique<ByteTokenizer>();
    case TokenizerKind::subword: {
      auto model = read(kSubwordFile);
      return with_source((folder / kSubwordFile).string(),
                         [&] { return std::make_unique<SubwordTokenizer>(std::move(model)); });
    }
    default:
      return with_source(file,
                         [&] { return std::make_unique<Vocabulary>(Vocabulary::from_json(json)); });
  }
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
  return make_from_files(directory, [&](const char* name) { return read_bytes(directory / name); });
}

std::unique_ptr<Tokenizer> parse_tokenizer(const std::map<std::string, std::string>& files) {
  return make_from_files("", [&](const char* name) {
    const auto found = files.find(name);
    if (found != files.end()) return found->second;
    throw InputError(fmt::format("{}: no such file of a tokenizer", name));
  });
}

}  // namespace attend
