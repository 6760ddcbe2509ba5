#pragma once

#include "attend/train/run_directory.h"

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace attend::app {

/// Tokens of a sample. A sample without tokens has no attention.
struct SampleTokens {
  std::vector<int64_t> input;
  std::vector<int64_t> output = {};  ///< that the model generated
};

/// Attention weights of all layers for one sample.
struct AttentionMatrices {
  std::string title;                 ///< such as "self-attention"
  std::size_t sample = 0;            ///< index of the sample
  std::vector<std::string> rows;     ///< labels of the queries, or of blocks of queries
  std::vector<std::string> columns;  ///< labels of the keys, or of blocks of keys
  torch::Tensor weights = {};        ///< (L, H, T, S), uint8: 255 * weight
  bool causal = false;
  int64_t generated_from = -1;  ///< first row of a token that the model generated; -1 = none
  int64_t block = 1;            ///< number of tokens of a block
  std::vector<nlohmann::ordered_json> largest = {};  ///< if block > 1, the exact largest weights:
                                                     ///< [layer, head, row, column, weight]
  /// If block = 1, an object for each of the last rows, which are generated tokens: `probability`
  /// of the token and `top`, the most likely tokens at its place as [label, probability]. Only one
  /// of the matrices of a sample has them: cross-attention has the rows of self-attention.
  std::vector<nlohmann::ordered_json> predictions = {};
};

/// Returns the attention weights of the model for `samples`, whose tokens are in the vocabulary.
/// Adds a line to `notes` for each reduction.
std::vector<AttentionMatrices> attention_of(train::Run& run,
                                            const std::vector<SampleTokens>& samples,
                                            std::vector<std::string>& notes);

/// Returns an entry of `attention` in the JSON of the report.
nlohmann::ordered_json to_json(const AttentionMatrices& matrices);

}  // namespace attend::app
