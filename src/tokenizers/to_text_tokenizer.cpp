// Writes the tokenizer of a run as tokenizer.json of a published model.
#include "attend/input_error.h"
#include "attend/io/tokenizer.h"
#include "attend/tokenizers/text_tokenizer.h"
#include "io/parse_json.h"
#include "tokenizers/byte_level.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace attend {
namespace {

using Json = nlohmann::json;

constexpr const char* kUnknown = "<unk>";

/// The parts of a tokenizer.json.
struct Parts {
  Json normalizer = nullptr;
  Json pre_tokenizer = nullptr;
  Json decoder = nullptr;
  Json model = nullptr;

  std::string to_json() const {
    return Json{{"version", "1.0"},
                {"truncation", nullptr},
                {"padding", nullptr},
                {"added_tokens", Json::array()},
                {"normalizer", normalizer},
                {"pre_tokenizer", pre_tokenizer},
                {"post_processor", nullptr},
                {"decoder", decoder},
                {"model", model}}
        .dump(1);
  }
};

/// Returns a part that splits a text at the matches of a pattern, or after each match.
Json split(const char* pattern, const char* behavior) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", behavior},
          {"invert", false}};
}

Json replace(const Json& pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

/// A text that has no other pieces than the tokens. A piece that is not a token is an error, unless
/// "<unk>" is a token.
Json word_level(const std::vector<std::string>& tokens) {
  Json vocabulary = Json::object();
  for (const auto& token : tokens) vocabulary[token] = vocabulary.size();
  return {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", kUnknown}};
}

Parts characters(const std::vector<std::string>& tokens) {
  const auto has = [&](const char* token) { return std::ranges::count(tokens, token) > 0; };
  Parts parts{.pre_tokenizer = split("[\\s\\S]", "Isolated"),
              .decoder = {{"type", "Fuse"}},
              .model = word_level(tokens)};
  if (has("\n") && !has("\r")) parts.normalizer = replace({{"String", "\r\n"}}, "\n");
  return parts;
}

/// Words are separated by ASCII white space. A line break may be a token; decoding puts no spaces
/// around it.
Parts words(const std::vector<std::string>& tokens) {
  const bool has_line_break = std::ranges::count(tokens, "\n") > 0;
  auto pre_tokenizer =
      split(has_line_break ? "[ \\t\\v\\f\\r]+" : "[ \\t\\n\\v\\f\\r]+", "Removed");
  // The prefix is that of pieces without a space before them; no word begins with it.
  Json decoder{{"type", "WordPiece"}, {"prefix", " "}, {"cleanup", false}};
  if (has_line_break) {
    pre_tokenizer = {{"type", "Sequence"},
                     {"pretokenizers", Json::array({pre_tokenizer, split("\\n", "Isolated")})}};
    decoder = {{"type", "Sequence"},
               {"decoders",
                Json::array({decoder, {{"type", "Fuse"}}, replace({{"Regex", " ?\\n ?"}}, "\n")})}};
  }
  return {.pre_tokenizer = pre_tokenizer, .decoder = decoder, .model = word_level(tokens)};
}

Parts bytes() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    tokenizers::append_byte_level(token, std::string(1, static_cast<char>(byte)));
    vocabulary[token] = byte;
  }
  return {.pre_tokenizer = {{"type", "ByteLevel"},
                            {"add_prefix_space", false},
                            {"trim_offsets", true},
                            {"use_regex", false}},
          .decoder = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}},
          .model = {{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", nullptr},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", false},
                    {"byte_fallback", false},
                    {"vocab", vocabulary},
                    {"merges", Json::array()}}};
}

}  // namespace

TextTokenizer to_text_tokenizer(const Tokenizer& tokenizer) {
  const auto description = parse_json(tokenizer.files().at(kTokenizerFile));
  const auto name = description.at("tokenizer").get<std::string>();
  const auto kind = from_string<TokenizerKind>(name);
  if (kind == TokenizerKind::byte) return TextTokenizer::parse(bytes().to_json());
  if (kind == TokenizerKind::character || kind == TokenizerKind::word) {
    const auto tokens = description.at("tokens").get<std::vector<std::string>>();
    const auto parts = kind == TokenizerKind::word ? words(tokens) : characters(tokens);
    return TextTokenizer::parse(parts.to_json());
  }
  throw InputError(fmt::format(
      "the tokenizer has the kind {}, expected character, byte or word: a SentencePiece model is "
      "not written as tokenizer.json",
      name));
}

}  // namespace attend
