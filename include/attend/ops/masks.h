#pragma once

#include <torch/types.h>

namespace attend {

/// The causal mask of `query` (..., T, D) over `key` (..., S, D): bool (T, S), true = may attend.
/// It is aligned at the bottom right: the last query sees every key, so it is right for a query
/// that continues a longer sequence of keys (S > T).
///
///     causal_mask(q, k);  // T = 2, S = 3: {{1, 1, 0}, {1, 1, 1}}
torch::Tensor causal_mask(const torch::Tensor& query, const torch::Tensor& key);

/// Where both masks let a query attend. Either may be undefined (= everything may attend), bool
/// (true = may attend) or float (added to the scores); the shapes broadcast. Two bool masks give
/// a bool mask, otherwise the result is float, with -infinity where a bool mask says no.
///
///     auto mask = combine_masks(causal_mask(q, k), valid_keys);
torch::Tensor combine_masks(const torch::Tensor& first, const torch::Tensor& second);

/// The queries that may attend to nothing under `mask` (..., T, S): bool (..., T, 1), true = none.
/// A float mask forbids with -infinity. No keys at all (S = 0) leaves nothing to attend to.
torch::Tensor rows_without_keys(const torch::Tensor& mask);

}  // namespace attend
