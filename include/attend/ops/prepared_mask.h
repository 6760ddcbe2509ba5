#pragma once

#include <torch/types.h>

namespace attend {

/// A mask in the form that the attention kernels take: at least one key is allowed in each row.
struct PreparedMask {
  /// bool (true = may attend) or float in the query's dtype. Broadcasts to the scores (..., T, S).
  /// Undefined if no mask is needed or `is_causal` is true.
  torch::Tensor mask = {};
  /// bool (..., T, 1): rows whose output is set to zero; undefined = none.
  torch::Tensor fully_masked_rows = {};
  /// True if the fused kernel applies the causal mask itself.
  bool is_causal = false;
};

}  // namespace attend
