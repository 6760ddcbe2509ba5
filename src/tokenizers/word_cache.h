#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace attend::tokenizers {

/// Ids of words that a model has split before. Most words of a text occur often. When the cache is
/// full, it is emptied.
class WordCache {
 public:
  /// Appends the ids of `word` to `ids` and returns true if the cache contains the word.
  bool find(std::string_view word, std::vector<int32_t>& ids) const {
    if (word.size() > kMaxBytes || slots_.empty()) return false;
    const auto& entry = slots_[slot_of(word)];
    if (entry.size == 0) return false;
    ids.insert(ids.end(), ids_.begin() + entry.first_id,
               ids_.begin() + entry.first_id + entry.id_count);
    return true;
  }
  /// Adds a word with the ids from `first` to the end of `ids`.
  void add(std::string_view word, const std::vector<int32_t>& ids, std::size_t first) {
    if (word.size() > kMaxBytes || word.empty()) return;
    if (count_ == kMaxWords || slots_.empty()) clear();
    auto& entry = slots_[slot_of(word)];
    if (entry.size != 0) return;
    entry = {static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(word.size()),
             static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(ids.size() - first)};
    texts_.insert(texts_.end(), word.begin(), word.end());
    ids_.insert(ids_.end(), ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
    ++count_;
  }

 private:
  static constexpr std::size_t kMaxBytes = 128;
  static constexpr std::size_t kMaxWords = 20'000;
  static constexpr std::size_t kSlots = 1 << 16;

  struct Entry {
    uint32_t text;
    uint32_t size;  ///< of the word in bytes; 0 if the slot is free
    uint32_t first_id;
    uint32_t id_count;
  };

  void clear() {
    slots_.assign(kSlots, {});
    texts_.clear();
    ids_.clear();
    count_ = 0;
  }
  /// Returns the slot of a word, or a free one.
  std::size_t slot_of(std::string_view word) const {
    auto slot = std::hash<std::string_view>{}(word) & (kSlots - 1);
    while (slots_[slot].size != 0 &&
           std::string_view(texts_.data() + slots_[slot].text, slots_[slot].size) != word) {
      slot = (slot + 1) & (kSlots - 1);
    }
    return slot;
  }

  std::vector<Entry> slots_;
  std::vector<char> texts_;
  std::vector<int32_t> ids_;
  std::size_t count_ = 0;
};

/// Word caches for calls of `encode` at the same time. Each call has a cache of its own, so that
/// threads do not wait for each other.
class WordCaches {
 public:
  std::unique_ptr<WordCache> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<WordCache>();
    auto cache = std::move(free_.back());
    free_.pop_back();
    return cache;
  }
  void give_back(std::unique_ptr<WordCache> cache) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(cache));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> free_;
};

}  // namespace attend::tokenizers
