#include "attend/ops/pooling.h"

namespace attend {

torch::Tensor mean_pooling(const torch::Tensor& x, const torch::Tensor& key_mask) {
  TORCH_CHECK_VALUE(x.dim() >= 2, "x must be (..., T, E), found ", x.sizes());
  if (!key_mask.defined()) return mean_pooling(x, torch::ones_like(x.select(-1, 0), torch::kBool));
  TORCH_CHECK_TYPE(key_mask.scalar_type() == torch::kBool,
                   "key_mask must be bool (true = token, false = padding), found ",
                   key_mask.scalar_type());
  TORCH_CHECK_VALUE(key_mask.sizes() == x.sizes().slice(0, static_cast<std::size_t>(x.dim() - 1)),
                    "key_mask must be (..., T) for x (..., T, E) ", x.sizes(), ", found ",
                    key_mask.sizes());
  const auto is_token = key_mask.unsqueeze(-1);      // (..., T, 1)
  const auto count = is_token.sum(-2).clamp_min(1);  // (..., 1)
  const auto tokens = x.masked_fill(is_token.logical_not(), 0.0);
  return tokens.sum(-2) / count;  // (..., E)
}

}  // namespace attend
