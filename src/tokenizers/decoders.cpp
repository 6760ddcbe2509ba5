#include "tokenizers/decoders.h"

#include "tokenizers/byte_level.h"
#include "tokenizers/characters.h"

#include <algorithm>
#include <array>
#include <optional>

namespace attend::tokenizers {
namespace decoders {
namespace {

using Tokens = std::vector<std::string>;

/// Removes the blanks before punctuation and contractions that a decoder of words has added.
std::string cleaned(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules{
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) {
    if (text.find(from) != text.npos) text = replace_all(text, from, to);
  }
  return text;
}

/// Replaces nothing if `from` is empty.
std::string replaced(const std::string& text, std::string_view from, std::string_view to) {
  return from.empty() ? text : replace_all(text, from, to);
}

void apply(const BpeDecoder& options, Tokens& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = replaced(tokens[i], options.suffix, i + 1 == tokens.size() ? "" : " ");
  }
}

/// Returns the byte of a token such as <0x61>.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  // The reference parses "+f" as a number, too.
  const int high = token[3] == '+' ? 0 : digit(token[3]);
  const int low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

void apply(const ByteFallback&, Tokens& tokens) {
  Tokens result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_utf8(bytes)) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (auto& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
    } else {
      flush();
      result.push_back(std::move(token));
    }
  }
  flush();
  tokens.swap(result);
}

void apply(const ByteLevel&, Tokens& tokens) {
  std::string bytes;
  for (const auto& token : tokens) {
    if (!append_bytes(bytes, token)) bytes += token;
  }
  std::string text;
  append_valid_utf8(text, bytes);
  tokens = {std::move(text)};
}

void apply(const Ctc& options, Tokens& tokens) {
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (auto& token : tokens) {
    token = replaced(token, options.pad_token, "");
    if (options.cleanup) token = replaced(cleaned(token), options.word_delimiter_token, " ");
  }
  std::erase(tokens, "");
}

void apply(const Fuse&, Tokens& tokens) {
  std::string text;
  for (const auto& token : tokens) text += token;
  tokens = {std::move(text)};
}

void apply(const Metaspace& options, Tokens& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] =
        replace_all(tokens[i], options.replacement, i == 0 && options.drops_first ? "" : " ");
  }
}

void apply(const Replace& options, Tokens& tokens) {
  StepBudget budget;
  for (auto& token : tokens) token = options.pattern.replaced(token, options.content, budget);
}

void apply(const Strip& options, Tokens& tokens) {
  for (auto& token : tokens) {
    std::string_view text = token;
    for (std::size_t i = 0; i < options.start && text.starts_with(options.content); ++i) {
      text.remove_prefix(options.content.size());
    }
    for (std::size_t i = 0; i < options.stop && text.ends_with(options.content); ++i) {
      text.remove_suffix(options.content.size());
    }
    token = std::string(text);
  }
}

void apply(const WordPiece& options, Tokens& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    auto& token = tokens[i];
    if (i > 0) {
      token = token.starts_with(options.prefix) ? token.substr(options.prefix.size()) : " " + token;
    }
    if (options.cleanup) token = cleaned(std::move(token));
  }
}

Decoder parse_decoder_metaspace(JsonFields& fields) {
  fields.ignore({"str_rep", "prepend_scheme", "split"});
  Metaspace part{one_character(fields, "replacement"), true};
  if (fields.has("prepend_scheme")) {
    part.drops_first = fields.choice("prepend_scheme", {"first", "never", "always"}) != 1;
  }
  if (!fields.boolean("add_prefix_space", true)) {
    if (fields.has("prepend_scheme") && part.drops_first) {
      fields.throw_unexpected("prepend_scheme", "'never', because `add_prefix_space` is false");
    }
    part.drops_first = false;
  }
  return part;
}

const std::array kTypes{
    PartType<Decoder>{
        "BPEDecoder",
        [](JsonFields& fields) -> Decoder { return BpeDecoder{fields.string("suffix")}; }},
    PartType<Decoder>{"ByteFallback", [](JsonFields&) -> Decoder { return ByteFallback{}; }},
    PartType<Decoder>{"ByteLevel",
                      [](JsonFields& fields) -> Decoder {
                        fields.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
                        return ByteLevel{};
                      }},
    PartType<Decoder>{"CTC",
                      [](JsonFields& fields) -> Decoder {
                        return Ctc{fields.string("pad_token"),
                                   fields.string("word_delimiter_token"),
                                   fields.boolean("cleanup")};
                      }},
    PartType<Decoder>{"Fuse", [](JsonFields&) -> Decoder { return Fuse{}; }},
    PartType<Decoder>{"Metaspace", parse_decoder_metaspace},
    PartType<Decoder>{"Replace",
                      [](JsonFields& fields) -> Decoder {
                        return Replace{Pattern(fields), fields.short_string("content")};
                      }},
    PartType<Decoder>{"Strip",
                      [](JsonFields& fields) -> Decoder {
                        return Strip{
                            one_character(fields, "content"),
                            static_cast<std::size_t>(fields.integer("start", 0, INT32_MAX)),
                            static_cast<std::size_t>(fields.integer("stop", 0, INT32_MAX))};
                      }},
    PartType<Decoder>{"WordPiece",
                      [](JsonFields& fields) -> Decoder {
                        return WordPiece{fields.string("prefix"), fields.boolean("cleanup")};
                      }},
};

}  // namespace
}  // namespace decoders

std::vector<Decoder> parse_decoders(JsonFields& root) {
  return parts_under<Decoder>("decoder", root, decoders::kTypes, "decoders");
}

bool is_byte_token(const std::vector<Decoder>& parts, std::string_view token) {
  return decoders::byte_of(token) && std::ranges::any_of(parts, [](const Decoder& part) {
           return std::holds_alternative<decoders::ByteFallback>(part);
         });
}

std::string decode_tokens(const std::vector<Decoder>& parts, std::vector<std::string> tokens) {
  std::string text;
  if (parts.empty()) {
    for (std::size_t i = 0; i < tokens.size(); ++i) text += (i == 0 ? "" : " ") + tokens[i];
    return text;
  }
  const auto count_bytes = [&] {
    std::size_t bytes = 0;
    for (const auto& token : tokens) bytes += token.size();
    return bytes;
  };
  const auto original_bytes = count_bytes();
  for (const auto& part : parts) {
    std::visit([&](const auto& options) { decoders::apply(options, tokens); }, part);
    check_growth("decoder", original_bytes, count_bytes());
  }
  for (const auto& token : tokens) text += token;
  return text;
}

}  // namespace attend::tokenizers
