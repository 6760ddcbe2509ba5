#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

// attend::pretrained and attend::train also use the functions below. They are inline, because they
// are not exported.

/// True if a tensor of this name has a row for each class of a classifier, or for each token.
inline bool is_output(std::string_view name) {
  return name.starts_with("head.");
}

/// True if a tensor comes after the blocks of a classifier.
inline bool is_classifier_head(std::string_view name) {
  return is_output(name) || name.starts_with("pooler.") || name.starts_with("lm_");
}

/// Returns the index of each of `classes` in `source`, (C); undefined unless both contain the same
/// classes.
inline torch::Tensor rows_of_classes(const std::vector<std::string>& classes,
                                     const std::vector<std::string>& source) {
  if (!std::ranges::is_permutation(classes, source)) return {};
  std::vector<int64_t> rows;
  for (const auto& name : classes) rows.push_back(std::ranges::find(source, name) - source.begin());
  return torch::tensor(rows, torch::kLong);
}

/// Returns a tensor of the head with the rows of `rows_of_classes`.
inline torch::Tensor with_rows(const torch::Tensor& output, const torch::Tensor& rows) {
  const bool has_classes = rows.defined() && rows.numel() > 0;
  return has_classes ? output.index_select(0, rows.to(output.device())) : output;
}

}  // namespace attend
