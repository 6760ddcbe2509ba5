#pragma once

#include "attend/api.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace attend::train {

/// A file with the token embeddings after a step.
struct EmbeddingSnapshot {
  int64_t step = 0;            ///< number of steps done
  std::filesystem::path path;  ///< safetensors file with the tensor `embeddings` (N, E), float32
};

/// Number of tokens, the first of the vocabulary, whose embeddings a snapshot contains.
inline constexpr int64_t kSnapshotTokens = 1000;

/// Returns the snapshots of the run in `directory`, in the order of their steps; none if the run
/// has not recorded any.
///
///     const auto first = embedding_snapshots("runs/demo").front();
///     const auto table = load_safetensors(first.path).tensors.at("embeddings");
ATTEND_API std::vector<EmbeddingSnapshot> embedding_snapshots(
    const std::filesystem::path& directory);

}  // namespace attend::train
