#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/characters.h"
#include "tokenizers/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <queue>

namespace attend::tokenizers {
namespace {

constexpr uint32_t kNoRank = UINT32_MAX;

uint64_t pair_of(int32_t first, int32_t second) {
  return static_cast<uint64_t>(first) << 32 | static_cast<uint32_t>(second);
}

uint64_t hash_of_pair(uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15;
  return pair ^ pair >> 32;
}

/// A symbol of a word while pairs are joined: an element of a doubly linked list.
struct Symbol {
  int32_t id;
  int32_t previous;  ///< -1 for the first
  int32_t next;      ///< -1 for the last
};

/// A pair of neighbours that a merge joins.
struct Candidate {
  uint32_t rank;
  int32_t position;  ///< of the first symbol
  int32_t id;        ///< of the joined token

  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

BpeModel::BpeModel(JsonFields& fields, TokenizerJson& json)
    : prefix_(fields.has("continuing_subword_prefix")
                  ? fields.short_string("continuing_subword_prefix")
                  : ""),
      suffix_(fields.has("end_of_word_suffix") ? fields.short_string("end_of_word_suffix") : ""),
      fuse_unknown_(fields.boolean("fuse_unk", false)),
      byte_fallback_(fields.boolean("byte_fallback", false)),
      ignore_merges_(fields.boolean("ignore_merges", false)) {
  fields.ignore(
      {"unk_token", "dropout", "merges", "continuing_subword_prefix", "end_of_word_suffix"});
  if (fields.has("unk_token")) unknown_ = fields.string("unk_token");
  if (fields.has("dropout") && fields.value("dropout") != 0.0) {
    fields.throw_unexpected("dropout", "null or 0: the ids would be random");
  }
  if (json.vocab != TokenizerJson::Vocab::ids || !json.has_merges) {
    throw InputError(fmt::format("`{}`: expected an object `vocab` and an array `merges` for BPE",
                                 fields.path()));
  }
  tokens_ = std::move(json.tokens);
  with_source("`model.vocab`", [&] {
    tokens_.finish();
    return 0;
  });
  read_merges(json);
  byte_ids_ = find_byte_tokens(tokens_);
  ascii_ids_.assign(128, -1);
  for (std::size_t i = 0; i < ascii_ids_.size(); ++i) {
    const char character = static_cast<char>(i);
    if (const auto id = tokens_.find({&character, 1})) ascii_ids_[i] = *id;
  }
}

void BpeModel::read_merges(const TokenizerJson& json) {
  merges_.assign(std::bit_ceil(2 * json.merge_ends.size() + 2), {0, kNoRank, 0});
  const std::string_view texts = json.merge_texts;
  const auto find = [&](std::string_view token, std::size_t merge) {
    const auto id = tokens_.find(token);
    if (!id) {
      throw InputError(
          fmt::format("`model.merges[{}]`: the token '{}' is not in `model.vocab`, "
                      "expected a token of the vocabulary",
                      merge, printable(token)));
    }
    return *id;
  };
  std::size_t begin = 0;
  std::string joined;
  for (std::size_t i = 0; i < json.merge_ends.size(); ++i) {
    const auto [middle, end] = json.merge_ends[i];
    const auto first = texts.substr(begin, middle - begin);
    const auto second = texts.substr(middle, end - middle);
    begin = end;
    const auto pair = pair_of(find(first, i), find(second, i));
    if (second.size() < prefix_.size()) {
      throw InputError(
          fmt::format("`model.merges[{}]`: the token '{}' is shorter than "
                      "`continuing_subword_prefix` '{}', expected it as its beginning",
                      i, printable(second), printable(prefix_)));
    }
    joined = first;
    joined += second.substr(prefix_.size());
    auto slot = hash_of_pair(pair) & (merges_.size() - 1);
    while (merges_[slot].rank != kNoRank && merges_[slot].pair != pair) {
      slot = (slot + 1) & (merges_.size() - 1);
    }
    merges_[slot] = {pair, static_cast<uint32_t>(i), find(joined, i)};  // the last merge of a pair
  }
}

const BpeModel::Merge* BpeModel::find_merge(int32_t first, int32_t second) const {
  const auto pair = pair_of(first, second);
  auto slot = hash_of_pair(pair) & (merges_.size() - 1);
  while (merges_[slot].rank != kNoRank) {
    if (merges_[slot].pair == pair) return &merges_[slot];
    slot = (slot + 1) & (merges_.size() - 1);
  }
  return nullptr;
}

bool BpeModel::add_bytes(std::string_view text, std::vector<int32_t>& ids) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::any_of(text, [&](char byte) { return id_of(byte) < 0; })) return false;
  for (const char byte : text) ids.push_back(id_of(byte));
  return true;
}

void BpeModel::add_characters(std::string_view word, std::vector<int32_t>& ids) const {
  int32_t pending = -1;  // an unknown token that is not in `ids` yet
  std::string decorated;
  for (std::size_t at = 0; at < word.size();) {
    const auto begin = at;
    const auto character = next_character(word, at);
    auto text = word.substr(begin, at - begin);
    const bool has_prefix = begin > 0 && !prefix_.empty();
    const bool has_suffix = at == word.size() && !suffix_.empty();
    std::optional<int32_t> id;
    if (has_prefix || has_suffix) {
      decorated = has_prefix ? prefix_ : "";
      decorated += text;
      if (has_suffix) decorated += suffix_;
      text = decorated;
      id = tokens_.find(text);
    } else if (character < 0x80) {
      if (ascii_ids_[character] >= 0) id = ascii_ids_[character];
    } else {
      id = tokens_.find(text);
    }
    if (id) {
      if (pending >= 0) ids.push_back(pending);
      pending = -1;
      ids.push_back(*id);
      continue;
    }
    // Byte tokens come before a pending unknown token, as in the reference.
    if (byte_fallback_ && add_bytes(text, ids)) continue;
    if (!unknown_) continue;
    if (pending >= 0 && fuse_unknown_) continue;
    if (pending >= 0) ids.push_back(pending);
    pending = tokens_.find(*unknown_).value_or(-1);
    if (pending < 0) throw_missing_unknown(*unknown_, word);
  }
  if (pending >= 0) ids.push_back(pending);
}

void BpeModel::merge(std::vector<int32_t>& ids) const {
  if (ids.size() < 2) return;
  std::vector<Symbol> symbols(ids.size());
  std::vector<Candidate> storage;
  storage.reserve(ids.size());
  std::priority_queue queue(std::greater<Candidate>(), std::move(storage));
  const auto add_candidate = [&](int32_t position, int32_t first, int32_t second) {
    if (const auto* found = find_merge(first, second))
      queue.push({found->rank, position, found->id});
  };
  const auto last = static_cast<int32_t>(ids.size()) - 1;
  for (int32_t i = 0; i <= last; ++i) {
    const auto index = static_cast<std::size_t>(i);
    symbols[index] = {ids[index], i - 1, i == last ? -1 : i + 1};
    if (i < last) add_candidate(i, ids[index], ids[index + 1]);
  }
  const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  while (!queue.empty()) {
    const auto top = queue.top();
    queue.pop();
    auto& left = symbol(top.position);
    // A symbol that was joined with the previous one has id -1.
    if (left.id < 0 || left.next < 0) continue;
    auto& right = symbol(left.next);
    // The pair of the candidate may have changed.
    const auto* found = find_merge(left.id, right.id);
    if (found == nullptr || found->id != top.id) continue;
    left.id = top.id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbol(left.next).previous = top.position;
    if (left.previous >= 0) add_candidate(left.previous, symbol(left.previous).id, left.id);
    if (left.next >= 0) add_candidate(top.position, left.id, symbol(left.next).id);
  }
  ids.clear();
  for (const auto& each : symbols) {
    if (each.id >= 0) ids.push_back(each.id);
  }
}

void BpeModel::tokenize(std::string_view word, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const auto id = tokens_.find(word)) {
      ids.push_back(*id);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  add_characters(word, symbols);
  merge(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace attend::tokenizers
