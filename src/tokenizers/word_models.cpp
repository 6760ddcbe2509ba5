#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/characters.h"
#include "tokenizers/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace attend::tokenizers {
namespace {

void take_tokens(TokenTable& tokens, TokenizerJson& json, std::string_view type) {
  if (json.vocab != TokenizerJson::Vocab::ids) {
    throw InputError(
        fmt::format("`model.vocab`: expected an object of tokens and ids for {}", type));
  }
  tokens = std::move(json.tokens);
  with_source("`model.vocab`", [&] {
    tokens.finish();
    return 0;
  });
}

template <typename Type>
Model make_model(JsonFields& fields, TokenizerJson& json) {
  return Type(fields, json);
}

struct ModelType {
  std::string_view name;
  Model (*make)(JsonFields& fields, TokenizerJson& json);
};

constexpr std::array kModelTypes{
    ModelType{"BPE", make_model<BpeModel>},
    ModelType{"WordPiece", make_model<WordPieceModel>},
    ModelType{"Unigram", make_model<UnigramModel>},
    ModelType{"WordLevel", make_model<WordLevelModel>},
};

/// Returns the type of a model of an old file, which has no key `type`.
std::string type_of_keys(const JsonFields& fields, const TokenizerJson& json) {
  if (json.has_merges) return "BPE";
  if (json.vocab == TokenizerJson::Vocab::scores) return "Unigram";
  return fields.has("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

}  // namespace

void throw_missing_unknown(std::string_view unknown, std::string_view word) {
  throw InputError(
      fmt::format("the word '{}' is not in the vocabulary, and neither is the unknown "
                  "token '{}': expected an unknown token that is in `model.vocab`",
                  printable(word.substr(0, 100)), printable(unknown)));
}

std::vector<int32_t> find_byte_tokens(const TokenTable& tokens) {
  std::vector<int32_t> ids(256, -1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (const auto id = tokens.find(fmt::format("<0x{:02X}>", i))) ids[i] = *id;
  }
  return ids;
}

Model parse_model(JsonFields& root, TokenizerJson& json) {
  auto fields = root.object("model");
  fields.ignore({"type", "vocab"});
  if (json.vocab == TokenizerJson::Vocab::missing) {
    fields.throw_unexpected("vocab", "an object or an array");
  }
  const auto type = fields.has("type") ? fields.string("type") : type_of_keys(fields, json);
  for (const auto& row : kModelTypes) {
    if (row.name != type) continue;
    auto model = row.make(fields, json);
    fields.finish();
    return model;
  }
  std::vector<std::string_view> names;
  for (const auto& row : kModelTypes) names.push_back(row.name);
  throw_unknown_type(fields, type, names);
}

WordPieceModel::WordPieceModel(JsonFields& fields, TokenizerJson& json)
    : unknown_(fields.string("unk_token")),
      prefix_(fields.short_string("continuing_subword_prefix")),
      max_characters_(
          static_cast<std::size_t>(fields.integer("max_input_chars_per_word", 0, INT32_MAX))) {
  take_tokens(tokens_, json, "WordPiece");
  for (const auto& token : tokens_.tokens()) {
    if (tokens_.text_of(token).starts_with(prefix_)) {
      longest_continuation_ =
          std::max<std::size_t>(longest_continuation_, token.size - prefix_.size());
    }
  }
}

void WordPieceModel::tokenize(std::string_view word, std::vector<int32_t>& ids) const {
  const auto first_id = ids.size();
  bool is_known = word.size() <= max_characters_ || count_characters(word) <= max_characters_;
  std::string continuation = prefix_;
  for (std::size_t begin = 0; is_known && begin < word.size();) {
    const auto longest = begin == 0 ? tokens_.longest() : longest_continuation_;
    auto end = std::min(word.size(), begin + longest);
    while (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) --end;
    std::optional<int32_t> id;
    if (begin > 0) {
      continuation.resize(prefix_.size());
      continuation += word.substr(begin, end - begin);
    }
    for (; end > begin; end = previous_position(word, end)) {
      id = begin == 0 ? tokens_.find(word.substr(0, end))
                      : tokens_.find(
                            std::string_view(continuation).substr(0, prefix_.size() + end - begin));
      if (id) break;
    }
    is_known = id.has_value();
    if (!is_known) break;
    ids.push_back(*id);
    begin = end;
  }
  if (is_known) return;
  const auto unknown = tokens_.find(unknown_);
  if (!unknown) throw_missing_unknown(unknown_, word);
  ids.resize(first_id);
  ids.push_back(*unknown);
}

WordLevelModel::WordLevelModel(JsonFields& fields, TokenizerJson& json)
    : unknown_(fields.string("unk_token")) {
  take_tokens(tokens_, json, "WordLevel");
}

void WordLevelModel::tokenize(std::string_view word, std::vector<int32_t>& ids) const {
  auto id = tokens_.find(word);
  if (!id) id = tokens_.find(unknown_);
  if (!id) throw_missing_unknown(unknown_, word);
  ids.push_back(*id);
}

}  // namespace attend::tokenizers
