#pragma once

#include "attend/models/sampling.h"

namespace attend {

/// Throws c10::ValueError if an option is out of range. The message names the option and its value.
void check_sampling(const SamplingOptions& options);

/// Returns `logits` (V) with -inf for the tokens that `suppress_tokens` and `no_repeat_ngram_size`
/// exclude after the tokens `previous`.
torch::Tensor without_suppressed(const torch::Tensor& logits, const SamplingOptions& options,
                                 at::IntArrayRef previous);

/// Throws c10::ValueError: `options` exclude all tokens.
[[noreturn]] void throw_all_suppressed(const SamplingOptions& options);

}  // namespace attend
