#include "attend/io/vocabulary.h"

#include "attend/input_error.h"
#include "io/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace attend {
namespace {

const std::string kLineBreak = "\n";
const std::string kUnknown = "<unk>";

enum class LineBreaks { are_white_space, are_tokens };

std::vector<std::string_view> split_words(std::string_view text, LineBreaks line_breaks) {
  check_utf8(text);
  const bool keep = line_breaks == LineBreaks::are_tokens;
  constexpr std::string_view kEndOfWord = " \t\n\v\f\r";
  const std::string_view skipped = keep ? " \t\v\f\r" : kEndOfWord;
  std::vector<std::string_view> words;
  for (auto from = text.find_first_not_of(skipped); from != std::string_view::npos;) {
    auto to = std::min(text.find_first_of(kEndOfWord, from), text.size());
    if (to == from) ++to;  // a line break
    words.push_back(text.substr(from, to - from));
    from = text.find_first_not_of(skipped, to);
  }
  return words;
}

/// The most frequent first, equally frequent ones by code points.
std::vector<std::string> by_frequency(const std::vector<std::string_view>& words) {
  std::unordered_map<std::string_view, int64_t> counts;
  for (const auto& word : words) ++counts[word];
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.second, a.first) < std::pair(-b.second, b.first);
  });
  std::vector<std::string> distinct;
  for (const auto& [word, count] : sorted) distinct.emplace_back(word);
  return distinct;
}

}  // namespace

Vocabulary::Vocabulary(TokenUnit unit, std::vector<std::string> tokens)
    : unit_(unit), tokens_(std::move(tokens)) {
  if (tokens_.empty()) throw InputError("a vocabulary needs at least one token, found none");
  for (const auto& token : tokens_) {
    check_utf8(token, "a token of the vocabulary");
    if (!ids_.emplace(token, static_cast<int64_t>(ids_.size())).second) {
      throw InputError(fmt::format("token '{}' stands twice in the vocabulary", printable(token)));
    }
  }
}

Vocabulary Vocabulary::of_characters(std::string_view text) {
  const auto characters = split_characters(text);
  // UTF-8 sorts by bytes as it does by code points.
  const std::set<std::string_view> distinct(characters.begin(), characters.end());
  return {TokenUnit::character, {distinct.begin(), distinct.end()}};
}

Vocabulary Vocabulary::of_words(std::string_view text, int64_t max_size) {
  const auto words = by_frequency(split_words(text, LineBreaks::are_white_space));
  if (words.empty()) throw InputError("a vocabulary of words needs a text with words, found none");
  std::vector<std::string> tokens;
  if (max_size != 0) tokens.push_back(kUnknown);
  if (text.find('\n') != std::string_view::npos) tokens.push_back(kLineBreak);
  const auto special = static_cast<int64_t>(tokens.size());
  if (max_size != 0 && max_size <= special) {
    throw InputError(fmt::format(
        "a vocabulary of at most {} tokens has no room for a word: expected at least {}", max_size,
        special + 1));
  }
  std::copy_if(words.begin(), words.end(), std::back_inserter(tokens),
               [&](const auto& word) { return max_size == 0 || word != kUnknown; });
  if (max_size != 0 && max_size < static_cast<int64_t>(tokens.size())) {
    tokens.resize(static_cast<std::size_t>(max_size));
  }
  return {TokenUnit::word, std::move(tokens)};
}

Vocabulary Vocabulary::from_json(std::string_view json) {
  try {
    const auto parsed = nlohmann::json::parse(json);
    const auto unit = from_string<TokenUnit>(parsed.at("unit").get<std::string>());
    if (!unit) throw InputError("vocabulary: unknown unit " + parsed.at("unit").dump());
    if (parsed.size() != 2) throw InputError("vocabulary: expected the keys unit and tokens only");
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
                               printable(token), tokens_.size()));
}

std::vector<int64_t> Vocabulary::encode(std::string_view text) const {
  const bool words = unit_ == TokenUnit::word;
  const auto line_breaks = knows(kLineBreak) ? LineBreaks::are_tokens : LineBreaks::are_white_space;
  const auto parts = words ? split_words(text, line_breaks) : split_characters(text);
  const bool any_word = words && knows(kUnknown);
  std::vector<int64_t> ids;
  ids.reserve(parts.size());
  for (const auto& part : parts) {
    const std::string token(part);
    ids.push_back(id(any_word && !knows(token) ? kUnknown : token));
  }
  return ids;
}

std::string Vocabulary::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  for (const auto id : ids) {
    const auto& token = tokens_.at(static_cast<std::size_t>(id));
    const bool line_begins = text.empty() || text.back() == '\n';
    if (unit_ == TokenUnit::word && !line_begins && token != kLineBreak) text += ' ';
    text += token;
  }
  return text;
}

std::string Vocabulary::token(int64_t id) const {
  return printable(tokens_.at(static_cast<std::size_t>(id)));
}

std::map<std::string, std::string> Vocabulary::files() const {
  return {{kTokenizerFile, to_json()}};
}

}  // namespace attend
