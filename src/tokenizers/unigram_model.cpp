#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/characters.h"
#include "tokenizers/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

namespace attend::tokenizers {
namespace {

/// The score of an unknown character is this much below the lowest score of the vocabulary.
constexpr double kUnknownPenalty = 10.0;

/// End of a token in a text, with the best tokens before it.
struct PathNode {
  int32_t id = -1;
  bool is_reached = false;
  double score = 0;
  std::size_t begin = 0;
};

}  // namespace

UnigramModel::UnigramModel(JsonFields& fields, TokenizerJson& json) {
  fields.ignore({"unk_id"});
  const bool byte_fallback = fields.boolean("byte_fallback", false);
  if (json.vocab != TokenizerJson::Vocab::scores) {
    throw InputError("`model.vocab`: expected an array of tokens and scores for Unigram");
  }
  tokens_ = std::move(json.tokens);
  scores_ = std::move(json.scores);
  with_source("`model.vocab`", [&] {
    tokens_.finish(/*allows_equal_texts=*/true);
    return 0;
  });
  if (fields.has("unk_id")) {
    const auto last = static_cast<int64_t>(scores_.size()) - 1;
    unknown_ = static_cast<int32_t>(fields.integer("unk_id", 0, last));
  }
  auto lowest = std::numeric_limits<double>::infinity();
  for (const auto score : scores_) lowest = std::min(lowest, score);
  unknown_score_ = lowest - kUnknownPenalty;
  if (byte_fallback) byte_ids_ = find_byte_tokens(tokens_);
  build_trie();
}

void UnigramModel::build_trie() {
  // Sorted by text, the tokens below a node are a range.
  std::vector<TokenTable::Token> sorted;
  for (const auto& token : tokens_.tokens()) {
    // Of equal texts, the last id.
    if (token.size > 0 && tokens_.find(tokens_.text_of(token)) == token.id) sorted.push_back(token);
  }
  std::ranges::sort(sorted, {}, [&](const auto& token) { return tokens_.text_of(token); });
  struct Range {
    uint32_t node;
    std::size_t begin, end, depth;
  };
  trie_.emplace_back();
  std::deque<Range> open{{0, 0, sorted.size(), 0}};
  for (; !open.empty(); open.pop_front()) {
    auto [node, begin, end, depth] = open.front();
    if (begin < end && sorted[begin].size == depth) trie_[node].id = sorted[begin++].id;
    trie_[node].first_child = static_cast<uint32_t>(trie_.size());
    while (begin < end) {
      const auto byte_at = [&, depth = depth](std::size_t i) {
        return static_cast<unsigned char>(tokens_.text_of(sorted[i])[depth]);
      };
      auto next = begin;
      while (next < end && byte_at(next) == byte_at(begin)) ++next;
      open.push_back({static_cast<uint32_t>(trie_.size()), begin, next, depth + 1});
      trie_.emplace_back().byte = byte_at(begin);
      ++trie_[node].children;
      begin = next;
    }
  }
  root_.assign(256, 0);
  for (uint32_t i = 0; i < trie_[0].children; ++i) root_[trie_[1 + i].byte] = 1 + i;
}

uint32_t UnigramModel::child(uint32_t node, unsigned char byte) const {
  const auto begin = trie_[node].first_child;
  const auto end = begin + trie_[node].children;
  for (auto i = begin; i < end; ++i) {
    if (trie_[i].byte == byte) return i;
  }
  return 0;
}

int32_t UnigramModel::unknown_id(std::string_view text) const {
  if (unknown_) return *unknown_;
  throw InputError(
      fmt::format("the text '{}' is not in the vocabulary, and `model.unk_id` is null: "
                  "expected the id of an unknown token",
                  printable(text.substr(0, 100))));
}

/// Appends the ids of a text that is not a token or, if it is, its id.
void UnigramModel::add_text(std::string_view text, std::vector<int32_t>& ids) const {
  if (const auto id = tokens_.find(text)) {
    ids.push_back(*id);
    return;
  }
  const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (!byte_ids_.empty() && std::ranges::all_of(text, [&](char b) { return byte_id(b) >= 0; })) {
    for (const char byte : text) ids.push_back(byte_id(byte));
  } else {
    ids.push_back(unknown_id(text));
  }
}

void UnigramModel::tokenize(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<PathNode> ends(text.size() + 1);
  const auto reach = [&](std::size_t end, std::size_t begin, int32_t id, double score) {
    auto& node = ends[end];
    if (!node.is_reached || score > node.score) node = {id, true, score, begin};
  };
  for (std::size_t begin = 0; begin < text.size();) {
    auto next = begin;
    next_character(text, next);
    bool has_single = false;
    const auto score = ends[begin].score;
    auto node = root_[static_cast<unsigned char>(text[begin])];
    for (auto end = begin + 1; node != 0; ++end) {
      if (trie_[node].id >= 0) {
        reach(end, begin, trie_[node].id,
              scores_[static_cast<std::size_t>(trie_[node].id)] + score);
        has_single = has_single || end == next;
      }
      if (end == text.size()) break;
      node = child(node, static_cast<unsigned char>(text[end]));
    }
    if (!has_single) {
      reach(next, begin, unknown_id(text.substr(begin, next - begin)), unknown_score_ + score);
    }
    begin = next;
  }
  // From the end to the start: the spans of the tokens. Neighbours that are unknown become one.
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  bool was_unknown = false;
  for (auto end = text.size(); end > 0;) {
    const auto& node = ends[end];
    const bool is_unknown = node.id == unknown_;
    if (is_unknown && was_unknown) {
      spans.back().first = node.begin;
    } else {
      spans.emplace_back(node.begin, end);
    }
    was_unknown = is_unknown;
    end = node.begin;
  }
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
    add_text(text.substr(span->first, span->second - span->first), ids);
  }
}

}  // namespace attend::tokenizers
