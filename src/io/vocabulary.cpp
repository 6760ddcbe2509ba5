#include "attend/io/vocabulary.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utf8.h>

#include <algorithm>
#include <set>

namespace attend {
namespace {

std::vector<std::string_view> split_characters(std::string_view text) {
  const auto wrong = utf8::find_invalid(text.begin(), text.end());
  if (wrong != text.end()) {
    throw InputError(fmt::format("expected UTF-8 text, found byte 0x{:02X} at offset {}",
                                 static_cast<unsigned char>(*wrong), wrong - text.begin()));
  }
  std::vector<std::string_view> characters;
  for (auto from = text.begin(); from != text.end();) {
    auto to = from;
    utf8::unchecked::next(to);
    characters.emplace_back(from, to);
    from = to;
  }
  return characters;
}

std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  std::vector<std::string_view> words;
  for (auto from = text.find_first_not_of(kSpace); from != std::string_view::npos;) {
    const auto to = std::min(text.find_first_of(kSpace, from), text.size());
    words.push_back(text.substr(from, to - from));
    from = text.find_first_not_of(kSpace, to);
  }
  return words;
}

}  // namespace

Vocabulary::Vocabulary(TokenUnit unit, std::vector<std::string> tokens)
    : unit_(unit), tokens_(std::move(tokens)) {
  if (tokens_.empty()) throw InputError("a vocabulary needs at least one token, found none");
  for (const auto& token : tokens_) {
    if (!ids_.emplace(token, static_cast<int64_t>(ids_.size())).second) {
      throw InputError(fmt::format("token '{}' stands twice in the vocabulary", token));
    }
  }
}

Vocabulary Vocabulary::of_characters(std::string_view text) {
  const auto characters = split_characters(text);
  // UTF-8 sorts by bytes as it does by code points.
  const std::set<std::string_view> distinct(characters.begin(), characters.end());
  return {TokenUnit::character, {distinct.begin(), distinct.end()}};
}

Vocabulary Vocabulary::from_json(std::string_view json) {
  try {
    const auto parsed = nlohmann::json::parse(json);
    const auto unit = from_string<TokenUnit>(parsed.at("unit").get<std::string>());
    if (!unit) throw InputError("vocabulary: unknown unit " + parsed.at("unit").dump());
    return {*unit, parsed.at("tokens").get<std::vector<std::string>>()};
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("not a vocabulary: {}", error.what()));
  }
}

std::string Vocabulary::to_json() const {
  const nlohmann::ordered_json json{{"unit", to_string(unit_)}, {"tokens", tokens_}};
  return json.dump(1) + "\n";
}

int64_t Vocabulary::id(const std::string& token) const {
  const auto found = ids_.find(token);
  if (found != ids_.end()) return found->second;
  throw InputError(fmt::format("{} '{}' is not among the {} that the model knows", to_string(unit_),
                               token, tokens_.size()));
}

std::vector<int64_t> Vocabulary::encode(std::string_view text) const {
  const auto parts = unit_ == TokenUnit::character ? split_characters(text) : split_words(text);
  std::vector<int64_t> ids;
  ids.reserve(parts.size());
  for (const auto& part : parts) ids.push_back(id(std::string(part)));
  return ids;
}

std::string Vocabulary::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  for (const auto id : ids) {
    if (unit_ == TokenUnit::word && !text.empty()) text += ' ';
    text += token(id);
  }
  return text;
}

}  // namespace attend
