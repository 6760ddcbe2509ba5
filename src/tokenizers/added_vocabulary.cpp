#include "tokenizers/added_vocabulary.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace attend::tokenizers {
namespace {

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  auto position = previous_position(text, text.size());
  return is_word(next_character(text, position));
}

bool starts_with_word(std::string_view text) {
  std::size_t position = 0;
  return !text.empty() && is_word(next_character(text, position));
}

/// Returns the start of the whitespace at the end of `text`.
std::size_t begin_of_last_space(std::string_view text) {
  auto begin = text.size();
  while (begin > 0) {
    const auto last = previous_position(text, begin);
    auto position = last;
    if (!is_whitespace(next_character(text, position))) break;
    begin = last;
  }
  return begin;
}

/// Returns the end of the whitespace at the start of `text`.
std::size_t end_of_first_space(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    auto next = end;
    if (!is_whitespace(next_character(text, next))) break;
    end = next;
  }
  return end;
}

}  // namespace

void AddedVocabulary::Matcher::add(std::string_view text, int32_t id) {
  texts_.emplace(text, id);
  auto& sizes = sizes_[static_cast<unsigned char>(text[0])];
  const auto place = std::ranges::lower_bound(sizes, text.size(), std::greater<>());
  if (place == sizes.end() || *place != text.size()) sizes.insert(place, text.size());
}

std::pair<std::size_t, int32_t> AddedVocabulary::Matcher::next(std::string_view text,
                                                               std::size_t& begin) const {
  for (; begin < text.size(); ++begin) {
    for (const auto size : sizes_[static_cast<unsigned char>(text[begin])]) {
      if (size > text.size() - begin) continue;
      const auto found = texts_.find(text.substr(begin, size));
      if (found != texts_.end()) return {size, found->second};
    }
  }
  return {0, -1};
}

AddedVocabulary::AddedVocabulary(JsonFields& root, const TokenTable& tokens,
                                 const std::vector<Normalizer>& normalizers) {
  root.ignore({"added_tokens"});
  if (!root.has("added_tokens")) return;
  // As in the reference, a token that is not in the vocabulary gets the next free id.
  auto next_id = static_cast<int64_t>(tokens.size());
  StepBudget budget;
  for (auto& fields : root.objects("added_tokens")) {
    const auto id = fields.integer("id", 0, TokenTable::kMaxId);
    Token token{{id, fields.string("content"), fields.boolean("special")},
                "",
                fields.boolean("single_word"),
                fields.boolean("lstrip"),
                fields.boolean("rstrip")};
    const bool is_normalized = fields.boolean("normalized");
    fields.finish();
    const auto& content = token.token.content;
    if (content.empty()) continue;
    const auto known = tokens.find(content);
    const auto expected = known ? int64_t{*known} : next_id;
    if (ids_.contains(content)) {
      fields.throw_unexpected("content", "a token that is not in `added_tokens` before");
    }
    if (id != expected) {
      fields.throw_unexpected(
          "id",
          fmt::format("{}, {} for the token '{}'", expected,
                      known ? "the id in `model.vocab`" : "the next free id", printable(content)));
    }
    if (!known) {
      ++next_id;
      ++new_tokens_;
    }
    token.text = content;
    if (is_normalized) {
      NormalizedText text{content, budget};
      normalize(normalizers, text);
      token.text = text.text;
    }
    auto& matcher = is_normalized ? normalized_ : raw_;
    if (token.text.empty() || matcher.contains(token.text)) {
      fields.throw_unexpected(
          "content",
          fmt::format("a token whose normalized text, here '{}', is not empty and differs "
                      "from the other added tokens",
                      printable(token.text)));
    }
    matcher.add(token.text, static_cast<int32_t>(id));
    ids_.emplace(content, static_cast<int32_t>(id));
    if (token.token.special) special_.emplace(content, true);
    if (!tokens_.emplace(static_cast<int32_t>(id), std::move(token)).second) {
      fields.throw_unexpected("id", "an id that is not in `added_tokens` before");
    }
  }
}

/// Calls `emit` with the id and the span of each added token, and with -1 and the spans of the
/// texts between them.
template <typename Emit>
void AddedVocabulary::find_tokens(std::string_view text, const Matcher& matcher,
                                  const Emit& emit) const {
  std::size_t end = 0;  // of the last token
  if (!matcher.is_empty()) {
    std::size_t from = 0;
    for (auto [size, id] = matcher.next(text, from); size > 0;
         std::tie(size, id) = matcher.next(text, from)) {
      auto begin = from;
      from += size;
      auto stop = from;
      const auto& token = tokens_.at(id);
      if (token.single_word &&
          (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(stop)))) {
        continue;
      }
      if (token.lstrip) begin = std::max(begin_of_last_space(text.substr(0, begin)), end);
      if (token.rstrip) stop += end_of_first_space(text.substr(stop));
      if (end < begin) emit(-1, Span{end, begin});
      // A token may begin in the blanks that the token before has taken. It counts, too, unless it
      // has taken them as well, so that nothing is left.
      if (begin < stop) emit(id, Span{begin, stop});
      end = stop;
    }
  }
  if (end < text.size()) emit(-1, Span{end, text.size()});
}

Pieces AddedVocabulary::split(std::string_view text,
                              const std::vector<Normalizer>& normalizers) const {
  Pieces pieces;
  find_tokens(text, raw_, [&](int32_t raw_id, Span span) {
    if (raw_id >= 0) {
      pieces.pieces.push_back({0, 0, raw_id});
      return;
    }
    NormalizedText part{std::string(text.substr(span.begin, span.end - span.begin)), pieces.budget};
    if (span.begin == 0) next_character(part.text, part.first_size);
    normalize(normalizers, part);
    find_tokens(part.text, normalized_, [&](int32_t id, Span inner) {
      if (inner.begin == inner.end) return;
      const auto piece = std::string_view(part.text).substr(inner.begin, inner.end - inner.begin);
      pieces.append(id >= 0 ? std::string_view() : piece, id,
                    first_size_in(inner, part.first_size));
    });
  });
  return pieces;
}

std::optional<int32_t> AddedVocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* AddedVocabulary::text(int64_t id) const {
  if (id < 0 || id > TokenTable::kMaxId) return nullptr;
  const auto found = tokens_.find(static_cast<int32_t>(id));
  return found == tokens_.end() ? nullptr : &found->second.text;
}

bool AddedVocabulary::is_special(std::string_view text) const {
  return special_.contains(text);
}

std::vector<AddedToken> AddedVocabulary::tokens() const {
  std::vector<AddedToken> result;
  for (const auto& [id, token] : tokens_) result.push_back(token.token);
  return result;
}

}  // namespace attend::tokenizers
