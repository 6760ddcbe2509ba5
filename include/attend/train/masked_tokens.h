#pragma once

#include "attend/api.h"
#include "attend/train/batch.h"

#include <torch/types.h>

#include <cstdint>

namespace attend::train {

/// Options of `mask_tokens`.
struct MaskingOptions {
  int64_t mask_token = 0;     ///< id of the token that replaces most of the chosen tokens
  int64_t vocab_size = 0;     ///< number of tokens, of which the random ones are drawn
  double probability = 0.15;  ///< fraction of the tokens of a row that are chosen
};

/// Returns a batch for a masked language model (Devlin et al. 2018, BERT). In each row, the
/// fraction `probability` of the tokens is chosen at random, at least one: these are the targets.
/// 80% of the chosen tokens are replaced by the mask token, 10% by a random token, and 10% are
/// kept.
///
/// `tokens` (B, T), int64. `maskable` (B, T), bool: true = may be chosen, false = special token or
/// padding. `generator` draws tokens; equal states give equal batches.
///
///     Sampler sampler(1);
///     auto batch = mask_tokens(tokens, tokens.gt(4), {.mask_token = 4, .vocab_size = 100},
///                              sampler.generator());
ATTEND_API Batch mask_tokens(const torch::Tensor& tokens, const torch::Tensor& maskable,
                             const MaskingOptions& options, torch::Generator& generator);

}  // namespace attend::train
