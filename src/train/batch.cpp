#include "attend/train/batch.h"

namespace attend::train {
namespace {

/// Returns the number of columns up to the last one in which a row of `is_used` (B, T) is true, at
/// least 1.
int64_t used_columns(const torch::Tensor& is_used) {
  const auto columns = is_used.any(0).nonzero();  // (columns, 1)
  return columns.size(0) == 0 ? 1 : columns[-1].item<int64_t>() + 1;
}

/// Keeps the first columns of those of `tensors` that are defined.
void keep_columns(int64_t count, std::initializer_list<torch::Tensor*> tensors) {
  for (auto* tensor : tensors) {
    if (tensor->defined()) *tensor = tensor->slice(1, 0, count).contiguous();
  }
}

/// True if the targets of a batch are those of its tokens, (B, T).
bool has_target_per_token(const Batch& batch) {
  return batch.problem.type == ProblemType::token_classification ||
         batch.problem.type == ProblemType::masked_lm;
}

}  // namespace

Batch select_rows(const Batch& batch, const torch::Tensor& index) {
  auto rows = map_batch(batch, [&](const torch::Tensor& tensor) { return tensor.index({index}); });
  if (rows.key_mask.defined()) {
    const auto count = used_columns(rows.key_mask);
    keep_columns(count, {&rows.tokens, &rows.key_mask});
    if (has_target_per_token(rows)) keep_columns(count, {&rows.targets, &rows.answers});
  }
  if (rows.decoder_tokens.defined()) {
    const auto count = used_columns(rows.targets.ne(kIgnoreIndex));
    keep_columns(count, {&rows.decoder_tokens, &rows.targets, &rows.answers});
  }
  return rows;
}

}  // namespace attend::train
