#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

// What learning and encoding by byte pairs share. Private to src/train.
namespace attend::train {

inline constexpr int64_t kBytes = 256;
/// Chunks are cut at 64 bytes, or up to three later, so as not to cut a character. It bounds the
/// time to encode one.
inline constexpr std::size_t kLongestChunk = 67;

/// One number for two tokens, in the order of the first, then the second.
inline uint64_t pair_key(int64_t first, int64_t second) {
  return static_cast<uint64_t>(first) << 32 | static_cast<uint64_t>(second);
}

/// The parts of a text that no token reaches over.
std::vector<std::string_view> split_chunks(std::string_view text);

/// The pairs to join, one after the other: at most `most`, each the most frequent in its turn.
std::vector<std::pair<int64_t, int64_t>> learn_merges(std::string_view text, int64_t most);

/// Replaces each `first` that `second` follows by `joined`, from left to right.
void join(std::vector<int64_t>& tokens, int64_t first, int64_t second, int64_t joined);

}  // namespace attend::train
