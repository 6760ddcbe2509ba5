#pragma once

#include "attend/api.h"
#include "attend/models/sequence_classifier.h"

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace attend::train {

/// Calls `use` with the index and the logits of each row of tokens, in float32 on the CPU: (C), or
/// (T, C) if the model predicts tokens. The order is that of the lengths: a batch contains rows of
/// similar lengths, so that there is little padding. Throws c10::ValueError if a row has no tokens.
void for_each_logits(
    SequenceClassifier& model, const std::vector<std::vector<int64_t>>& rows,
    const std::function<void(std::size_t index, const torch::Tensor& logits)>& use);

}  // namespace attend::train
