#pragma once

#include "attend/api.h"
#include "attend/ops/attention.h"

#include <torch/types.h>

namespace attend {

/// How far each key stands after each query, in steps, from the positions in `args` or else aligned
/// at the ends; negative = before. `query` (..., T, D), `key` (..., S, D); returns (T, S) or, where
/// positions differ from row to row, (B, 1, T, S) as the dimensions of `query` ask for.
///
///     key_offsets(q, k);  // T = 2, S = 3: {{-1, 0, 1}, {-2, -1, 0}}
ATTEND_API torch::Tensor key_offsets(const torch::Tensor& query, const torch::Tensor& key,
                                     const AttentionArgs& args = {});

/// The causal mask of `query` (..., T, D) over `key` (..., S, D): bool (T, S), true = may attend.
/// It is aligned at the bottom right: the last query sees every key, so it is right for a query
/// that continues a longer sequence of keys (S > T).
///
///     causal_mask(q, k);  // T = 2, S = 3: {{1, 1, 0}, {1, 1, 1}}
ATTEND_API torch::Tensor causal_mask(const torch::Tensor& query, const torch::Tensor& key);

/// All that `args` say of who may attend to whom, as one mask that broadcasts to the scores of
/// `query` (..., T, D) over `key` (..., S, D): bool (true = may attend) or float (added).
/// Undefined if they say nothing.
///
///     auto mask = attention_mask(q, k, {.segments = documents, .causal = true, .sliding_window =
///     128});
ATTEND_API torch::Tensor attention_mask(const torch::Tensor& query, const torch::Tensor& key,
                                        const AttentionArgs& args);

/// Where both masks let a query attend. Either may be undefined (= everything may attend), bool
/// (true = may attend) or float (added to the scores); the shapes broadcast. Two bool masks give
/// a bool mask, otherwise the result is float, with -infinity where a bool mask says no.
/// Throws c10::TypeError for a mask of another dtype.
///
///     auto mask = combine_masks(causal_mask(q, k), valid_keys);
ATTEND_API torch::Tensor combine_masks(const torch::Tensor& first, const torch::Tensor& second);

/// The queries that may attend to nothing under `mask` (..., T, S): bool (..., T, 1), true = none.
/// A float mask forbids with -infinity. No keys at all (S = 0) leaves nothing to attend to.
ATTEND_API torch::Tensor fully_masked_rows(const torch::Tensor& mask);

}  // namespace attend
