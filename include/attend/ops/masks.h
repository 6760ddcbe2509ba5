#pragma once

#include "attend/api.h"
#include "attend/ops/attention.h"

#include <torch/types.h>

namespace attend {

/// Returns the offset of each key from each query (key position - query position) in tokens, int64.
/// The shape is (T, S) if the positions in `args` have no batch dimension. Otherwise, the shape is
/// (B, 1, T, S), or (B, T, S) if `query` is (B, T, D). Without positions in `args`, the last query
/// has the position of the last key. `query` (..., T, D), `key` (..., S, D).
///
///     key_offsets(q, k);  // T = 2, S = 3: {{-1, 0, 1}, {-2, -1, 0}}
ATTEND_API torch::Tensor key_offsets(const torch::Tensor& query, const torch::Tensor& key,
                                     const AttentionArgs& args = {});

/// Returns the causal mask of `query` (..., T, D) and `key` (..., S, D): bool (T, S), true = may
/// attend. The mask is aligned at the bottom right, so the last query may attend to all keys, as
/// when the queries continue cached keys (S > T).
///
///     causal_mask(q, k);  // T = 2, S = 3: {{1, 1, 0}, {1, 1, 1}}
ATTEND_API torch::Tensor causal_mask(const torch::Tensor& query, const torch::Tensor& key);

/// Combines the fields `mask`, `key_mask`, `segments`, `causal` and `sliding_window` of `args` into
/// one mask. The mask broadcasts to the scores (..., T, S) and is bool (true = may attend) or float
/// (added to the scores). Returns an undefined tensor if none of these fields is set. `query`
/// (..., T, D), `key` (..., S, D).
///
///     auto mask = attention_mask(q, k, {.segments = segments, .causal = true});
ATTEND_API torch::Tensor attention_mask(const torch::Tensor& query, const torch::Tensor& key,
                                        const AttentionArgs& args);

/// Combines two masks: a query may attend to the keys that both masks allow. Each mask may be bool
/// (true = may attend), float (added to the scores) or undefined (all keys allowed); shapes
/// broadcast. If one mask is undefined, returns the other mask. The result for two bool masks is
/// bool. The result for two float masks is their sum. The result for a bool mask and a float mask
/// is the float mask, with -infinity where the bool mask is false. Throws c10::TypeError for masks
/// of other dtypes.
///
///     auto mask = combine_masks(causal_mask(q, k), key_mask.unsqueeze(-2));
ATTEND_API torch::Tensor combine_masks(const torch::Tensor& first, const torch::Tensor& second);

/// Returns which rows of `mask` (..., T, S) allow no key: bool (..., T, 1), true = fully masked. In
/// a float mask, -infinity excludes a key. If S = 0, all rows are fully masked.
///
///     output = output.masked_fill(fully_masked_rows(mask), 0.0);
ATTEND_API torch::Tensor fully_masked_rows(const torch::Tensor& mask);

}  // namespace attend
