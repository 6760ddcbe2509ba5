#include "attend/io/vocabulary.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "io/parse_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utf8.h>

#include <algorithm>
#include <iterator>

namespace attend {
namespace {

const std::string kLineBreak = "\n";
const std::string kUnknown = "<unk>";

enum class LineBreaks { are_white_space, are_tokens };

std::vector<std::string_view> split_words(std::string_view text, LineBreaks line_breaks) {
  check_utf8(text);
  const bool as_tokens = line_breaks == LineBreaks::are_tokens;
  constexpr std::string_view kEndOfWord = " \t\n\v\f\r";
  const std::string_view separators = as_tokens ? " \t\v\f\r" : kEndOfWord;
  std::vector<std::string_view> words;
  for (auto from = text.find_first_not_of(separators); from != std::string_view::npos;) {
    auto to = std::min(text.find_first_of(kEndOfWord, from), text.size());
    if (to == from) ++to;  // the word is a line break
    words.push_back(text.substr(from, to - from));
    from = text.find_first_not_of(separators, to);
  }
  return words;
}

/// Returns the distinct words, sorted by descending frequency. Words of equal frequency are sorted
/// by code points.
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

Vocabulary::Vocabulary(TokenizerKind kind, std::vector<std::string> tokens)
    : kind_(kind), tokens_(std::move(tokens)) {
  if (kind_ != TokenizerKind::character && kind_ != TokenizerKind::word) {
    throw InputError(
        fmt::format("a vocabulary must be of kind character or word, found {}", to_string(kind_)));
  }
  if (tokens_.empty()) throw InputError("the vocabulary is empty, expected at least one token");
  ascii_ids_.fill(-1);
  for (const auto& token : tokens_) {
    check_utf8(token, "a token of the vocabulary");
    const auto id = static_cast<int64_t>(ids_.size());
    if (!ids_.emplace(token, id).second) {
      throw InputError(fmt::format("duplicate token '{}' in the vocabulary", printable(token)));
    }
    if (token.size() == 1) ascii_ids_[static_cast<unsigned char>(token.front())] = id;
  }
}

Vocabulary Vocabulary::of_characters(std::string_view text, UnknownCharacters unknown) {
  check_utf8(text);
  constexpr uint32_t kCodePoints = 0x110000;
  std::vector<bool> seen(kCodePoints);
  for (auto at = text.begin(); at != text.end();) seen[utf8::unchecked::next(at)] = true;
  std::vector<std::string> tokens;
  if (unknown == UnknownCharacters::replace) tokens.push_back(kUnknown);
  for (uint32_t code = 0; code < kCodePoints; ++code) {
    if (seen[code]) utf8::append(code, std::back_inserter(tokens.emplace_back()));
  }
  return {TokenizerKind::character, std::move(tokens)};
}

Vocabulary Vocabulary::of_words(std::string_view text, int64_t max_size) {
  const auto words = by_frequency(split_words(text, LineBreaks::are_white_space));
  if (words.empty()) throw InputError("the text contains no words, expected at least one");
  std::vector<std::string> tokens;
  if (max_size != 0) tokens.push_back(kUnknown);
  if (text.find('\n') != std::string_view::npos) tokens.push_back(kLineBreak);
  const auto special = static_cast<int64_t>(tokens.size());
  if (max_size != 0 && max_size <= special) {
    throw InputError(
        fmt::format("vocabulary size ({}) must be at least {}: the special tokens and one word",
                    max_size, special + 1));
  }
  std::copy_if(words.begin(), words.end(), std::back_inserter(tokens),
               [&](const auto& word) { return max_size == 0 || word != kUnknown; });
  if (max_size != 0 && max_size < static_cast<int64_t>(tokens.size())) {
    tokens.resize(static_cast<std::size_t>(max_size));
  }
  return {TokenizerKind::word, std::move(tokens)};
}

Vocabulary Vocabulary::from_json(std::string_view json) {
  try {
    const auto parsed = parse_json(json);
    const auto name = parsed.at("tokenizer").get<std::string>();
    const auto kind = from_string<TokenizerKind>(name);
    if (!kind) {
      throw InputError(
          fmt::format("unknown tokenizer '{}', expected character or word", printable(name)));
    }
    if (parsed.size() != 2) {
      throw InputError(
          fmt::format("expected 2 keys, 'tokenizer' and 'tokens', found {} keys", parsed.size()));
    }
    return {*kind, parsed.at("tokens").get<std::vector<std::string>>()};
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("not a vocabulary file: {}", message_of(error)));
  }
}

std::string Vocabulary::to_json() const {
  const nlohmann::ordered_json json{{"tokenizer", to_string(kind_)}, {"tokens", tokens_}};
  return json.dump(1) + "\n";
}

int64_t Vocabulary::id(const std::string& token) const {
  const auto found = ids_.find(token);
  if (found != ids_.end()) return found->second;
  throw InputError(fmt::format("unknown {} '{}': not among the {} tokens of the vocabulary",
                               to_string(kind_), printable(token), tokens_.size()));
}

std::vector<int64_t> Vocabulary::encode(std::string_view text) const {
  const bool words = kind_ == TokenizerKind::word;
  const auto line_breaks = knows(kLineBreak) ? LineBreaks::are_tokens : LineBreaks::are_white_space;
  const auto pieces = words ? split_words(text, line_breaks) : split_characters(text);
  const bool has_unknown = knows(kUnknown);
  const bool skips_returns = !words && knows(kLineBreak) && !knows("\r");
  std::vector<int64_t> ids;
  ids.reserve(pieces.size());
  for (const auto& piece : pieces) {
    const auto first = static_cast<unsigned char>(piece.front());
    if (piece.size() == 1 && ascii_ids_[first] >= 0) {
      ids.push_back(ascii_ids_[first]);
      continue;
    }
    const auto end = static_cast<std::size_t>(piece.data() - text.data()) + piece.size();
    if (skips_returns && piece == "\r" && text.substr(end).starts_with('\n')) continue;
    const std::string token(piece);
    const auto found = ids_.find(token);
    if (found == ids_.end() && !has_unknown) {
      const auto offset = static_cast<std::size_t>(piece.data() - text.data());
      throw UnknownTokenError(
          fmt::format("unknown {} '{}'", to_string(kind_), printable(token)),
          position_in(text, offset),
          fmt::format("not among the {} tokens of the vocabulary", tokens_.size()),
          fmt::format("a model trained with {} or `tokenizer = byte` accepts any {}",
                      words ? "`vocab_size = N`" : "`unknown = replace`", to_string(kind_)));
    }
    ids.push_back(found == ids_.end() ? id(kUnknown) : found->second);
  }
  return ids;
}

std::string Vocabulary::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  for (const auto id : ids) {
    const auto& token = tokens_.at(static_cast<std::size_t>(id));
    const bool line_begins = text.empty() || text.back() == '\n';
    if (kind_ == TokenizerKind::word && !line_begins && token != kLineBreak) text += ' ';
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

Vocabulary Vocabulary::with_token(const std::string& token) const {
  auto tokens = tokens_;
  tokens.push_back(token);
  return {kind_, std::move(tokens)};
}

std::optional<int64_t> Vocabulary::mask_token() const {
  return knows(kMaskToken) ? std::optional(id(kMaskToken)) : std::nullopt;
}

std::optional<int64_t> Vocabulary::unknown_token() const {
  return knows(kUnknown) ? std::optional(id(kUnknown)) : std::nullopt;
}

}  // namespace attend
