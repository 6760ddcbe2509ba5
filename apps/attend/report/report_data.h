#pragma once

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace attend::app {

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
};

/// What the report of a run shows.
struct ReportData {
  nlohmann::ordered_json json;               ///< everything except `attention`
  std::vector<AttentionMatrices> attention;  ///< of the samples in the order of their indices
};

/// Collects the data of a report from the files of a run. If the data of one kind is large, it is
/// reduced: at most 5,000 rows of metrics, 30 evaluations with samples, 1,000 tokens, and 1 MiB of
/// attention weights, for which first samples are left out, and then tokens are grouped to blocks.
/// `notes` in the JSON lists the reductions. Throws InputError if a file of the run is damaged;
/// the message names the file.
ReportData report_data(const std::filesystem::path& directory);

}  // namespace attend::app
