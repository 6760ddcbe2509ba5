#include "byte_pairs.h"

#include <algorithm>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>

namespace attend::train {
namespace {

enum class ByteClass { line_break, space, letter, digit, sign };

/// Bytes of characters beyond ASCII count as letters.
ByteClass class_of(char byte) {
  if (byte == '\n') return ByteClass::line_break;
  if (byte == ' ' || byte == '\t' || byte == '\r') return ByteClass::space;
  if (byte >= '0' && byte <= '9') return ByteClass::digit;
  const bool ascii_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  return ascii_letter || (byte & 0x80) != 0 ? ByteClass::letter : ByteClass::sign;
}

bool continues_character(char byte) {
  return (byte & 0xC0) == 0x80;
}

/// The end of the bytes of one class that begin at `from`, where a chunk that began at `begin`
/// ends.
std::size_t end_of_run(std::string_view text, std::size_t begin, std::size_t from) {
  constexpr std::size_t kCut = kLongestChunk - 3;
  const auto kind = class_of(text[from]);
  auto end = from + 1;
  while (end < text.size() && class_of(text[end]) == kind && end - begin < kLongestChunk &&
         (end - begin < kCut || continues_character(text[end]))) {
    ++end;
  }
  return end;
}

std::size_t end_of_chunk(std::string_view text, std::size_t begin) {
  const auto kind = class_of(text[begin]);
  if (kind == ByteClass::line_break) return begin + 1;
  if (kind != ByteClass::space) return end_of_run(text, begin, begin);
  const auto end = end_of_run(text, begin, begin);
  const bool word_follows = end < text.size() && text[end] != '\n' && text[end - 1] == ' ' &&
                            class_of(text[end]) != ByteClass::space;
  if (!word_follows) return end;
  // The last space goes with the word.
  return end - begin == 1 ? end_of_run(text, begin, end) : end - 1;
}

/// A distinct chunk as the tokens that it has become so far, and how often it stands in the text.
struct Word {
  std::vector<int64_t> tokens;
  int64_t count;
};

std::vector<Word> count_words(std::string_view text) {
  std::unordered_map<std::string_view, int64_t> counts;
  for (const auto chunk : split_chunks(text)) ++counts[chunk];
  std::vector<Word> words;
  for (const auto& [chunk, count] : counts) {
    Word word{{}, count};
    for (const char byte : chunk) word.tokens.push_back(static_cast<unsigned char>(byte));
    words.push_back(std::move(word));
  }
  return words;
}

/// How often each pair of neighbours stands in the words, kept up while pairs are joined.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t i = 0; i < words_.size(); ++i) add(i, words_[i].count);
    for (const auto& [pair, count] : counts_) queue_.push({count, ~pair});
  }

  /// The most frequent pair that stands at least twice, or {0, 0}.
  std::pair<int64_t, uint64_t> most_frequent() {
    while (!queue_.empty()) {
      const auto [count, inverted] = queue_.top();
      const auto now = counts_[~inverted];
      if (count == now)
        return count < 2 ? std::pair<int64_t, uint64_t>{} : std::pair(count, ~inverted);
      queue_.pop();  // has become rarer since
      if (now > 0) queue_.push({now, inverted});
    }
    return {};
  }

  void join_everywhere(uint64_t pair, int64_t joined) {
    const auto holders = std::move(words_with_[pair]);
    words_with_.erase(pair);
    std::set<uint64_t> changed;
    for (const auto i : holders) {
      add(i, -words_[i].count);
      join(words_[i].tokens, static_cast<int64_t>(pair >> 32),
           static_cast<int64_t>(pair & 0xFFFFFFFF), joined);
      add(i, words_[i].count);
      for_each_pair(words_[i].tokens, [&](uint64_t other) { changed.insert(other); });
    }
    counts_.erase(pair);
    for (const auto other : changed) queue_.push({counts_[other], ~other});
  }

 private:
  template <typename Use>
  static void for_each_pair(const std::vector<int64_t>& tokens, const Use& use) {
    for (std::size_t i = 1; i < tokens.size(); ++i) use(pair_key(tokens[i - 1], tokens[i]));
  }

  void add(std::size_t word, int64_t count) {
    for_each_pair(words_[word].tokens, [&](uint64_t pair) {
      counts_[pair] += count;
      if (count > 0) words_with_[pair].insert(word);
    });
  }

  std::vector<Word> words_;
  std::unordered_map<uint64_t, int64_t> counts_;
  std::unordered_map<uint64_t, std::set<std::size_t>> words_with_;  // or had it once
  // The count, then the pair inverted, so that of equally frequent ones the smallest is on top.
  // A pair may stand here with counts that it no longer has.
  std::priority_queue<std::pair<int64_t, uint64_t>> queue_;
};

}  // namespace

std::vector<std::string_view> split_chunks(std::string_view text) {
  std::vector<std::string_view> chunks;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = end_of_chunk(text, begin);
    chunks.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return chunks;
}

std::vector<std::pair<int64_t, int64_t>> learn_merges(std::string_view text, int64_t most) {
  PairCounts counts(count_words(text));
  std::vector<std::pair<int64_t, int64_t>> merges;
  while (static_cast<int64_t>(merges.size()) < most) {
    const auto [count, pair] = counts.most_frequent();
    if (count == 0) break;
    counts.join_everywhere(pair, kBytes + static_cast<int64_t>(merges.size()));
    merges.emplace_back(static_cast<int64_t>(pair >> 32), static_cast<int64_t>(pair & 0xFFFFFFFF));
  }
  return merges;
}

void join(std::vector<int64_t>& tokens, int64_t first, int64_t second, int64_t joined) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i, ++kept) {
    const bool here = i + 1 < tokens.size() && tokens[i] == first && tokens[i + 1] == second;
    tokens[kept] = here ? joined : tokens[i];
    if (here) ++i;
  }
  tokens.resize(kept);
}

}  // namespace attend::train
