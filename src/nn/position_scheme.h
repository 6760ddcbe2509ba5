#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/ops/masks.h"

namespace attend {

/// Throws c10::ValueError if queries and keys come from two sequences: a distance between them
/// means nothing then.
inline void check_one_sequence(const char* part, const AttentionContext& context) {
  TORCH_CHECK_VALUE(!context.cross, part,
                    " is for self-attention: in cross-attention the two sequences have no common "
                    "positions");
}

/// Adds `bias`, which broadcasts to (..., H, T, S), to the scores, beside the mask of the call.
inline void add_to_scores(const torch::Tensor& bias, AttentionContext& context) {
  context.args.mask = combine_masks(context.args.mask, bias);
}

}  // namespace attend
