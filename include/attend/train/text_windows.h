#pragma once

#include "attend/api.h"
#include "attend/train/batch.h"

#include <cstdint>
#include <vector>

namespace attend::train {

/// Splits tokens (N) into non-overlapping windows of `context` tokens; the last window may be
/// shorter. Each token except the first is a target exactly once. Returns batches of at most `size`
/// windows. They are views of `tokens`, of any integer dtype. Throws InputError for fewer than two
/// tokens.
///
///     const auto batches = text_windows(tokens, /*context=*/256, /*size=*/8);
///     const auto evaluation = evaluate(run.model, batches);
ATTEND_API std::vector<Batch> text_windows(const torch::Tensor& tokens, int64_t context,
                                           int64_t size);

}  // namespace attend::train
