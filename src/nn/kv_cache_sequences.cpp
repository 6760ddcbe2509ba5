// The part of KvCache that counts the tokens of the sequences, without tensors.
#include "attend/nn/kv_cache.h"

#include <algorithm>

namespace attend {

bool KvCache::Sequences::have_equal_lengths() const {
  return std::all_of(lengths.begin(), lengths.end(),
                     [&](int64_t length) { return length == lengths.front(); });
}

bool KvCache::Sequences::any_overwritten() const {
  return std::any_of(overwritten.begin(), overwritten.end(),
                     [](int64_t count) { return count > 0; });
}

int64_t KvCache::Sequences::used_slots() const {
  return lengths.empty() ? 0
                         : std::min(*std::max_element(lengths.begin(), lengths.end()), max_seq_len);
}

void KvCache::Sequences::check_room(const std::vector<int64_t>& added) const {
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] + added[b] <= max_seq_len) continue;
    TORCH_CHECK_VALUE(sliding_window > 0, "max_seq_len (", max_seq_len,
                      ") of the KvCache must be at least ", lengths[b] + added[b],
                      ": a sequence has ", lengths[b], " tokens and is extended by ", added[b]);
    // After all new tokens have been written, the cache must still contain the window of the first
    // new token.
    const auto needed = sliding_window + added[b] - 1;
    TORCH_CHECK_VALUE(needed <= max_seq_len, "max_seq_len (", max_seq_len,
                      ") of the KvCache must be at least ", needed, " to extend it by ", added[b],
                      " tokens with a sliding_window of ", sliding_window,
                      ": extend by fewer tokens at a time");
  }
}

void KvCache::Sequences::extend(const std::vector<int64_t>& added) {
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    lengths[b] += added[b];
    overwritten[b] = std::max(overwritten[b], lengths[b] - max_seq_len);
  }
}

std::vector<int64_t> KvCache::Sequences::positions_in_slots() const {
  std::vector<int64_t> positions;
  const auto used = used_slots();
  positions.reserve(lengths.size() * static_cast<std::size_t>(used));
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (int64_t slot = 0; slot < used; ++slot) {
      // The last position up to lengths[b] - 1 whose token is written to this slot. Negative if
      // there is none.
      const auto rounds = (lengths[b] - 1 - slot + max_seq_len) / max_seq_len - 1;
      const auto position = slot + rounds * max_seq_len;
      positions.push_back(position >= overwritten[b] ? position : -1);
    }
  }
  return positions;
}

void KvCache::Sequences::check_truncate(const std::vector<int64_t>& shorter) const {
  TORCH_CHECK_VALUE(shorter.size() == lengths.size(), "truncate expects ", lengths.size(),
                    " lengths, one per sequence, found ", shorter.size());
  for (std::size_t b = 0; b < shorter.size(); ++b) {
    TORCH_CHECK_VALUE(shorter[b] >= 0 && shorter[b] <= lengths[b], "cannot truncate sequence ", b,
                      " to ", shorter[b], " tokens: the length must be in [0, ", lengths[b], "]");
    const auto first_needed = std::max<int64_t>(0, shorter[b] - sliding_window + 1);
    TORCH_CHECK_VALUE(overwritten[b] <= first_needed || shorter[b] == lengths[b],
                      "cannot truncate sequence ", b, " to ", shorter[b],
                      " tokens: the next token would attend to the tokens from index ",
                      first_needed, " on (sliding_window ", sliding_window,
                      "), but the tokens before index ", overwritten[b], " have been overwritten");
  }
}

KvCache::Sequences KvCache::Sequences::select(const std::vector<int64_t>& rows) const {
  Sequences selected{.max_seq_len = max_seq_len, .sliding_window = sliding_window};
  const auto batch_size = static_cast<int64_t>(lengths.size());
  for (const auto row : rows) {
    TORCH_CHECK_VALUE(row >= 0 && row < batch_size, "row (", row, ") must be in [0, ", batch_size,
                      "): the KvCache has ", batch_size, " sequences");
    selected.lengths.push_back(lengths[static_cast<std::size_t>(row)]);
    selected.overwritten.push_back(overwritten[static_cast<std::size_t>(row)]);
  }
  return selected;
}

}  // namespace attend
