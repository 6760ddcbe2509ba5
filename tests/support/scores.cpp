#include "support/scores.h"

namespace attend {

torch::Tensor scores_inside_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& mask, std::optional<double> scale) {
  const auto q = query.detach().to(torch::kDouble);
  const auto k = key.detach().to(torch::kDouble);
  const auto keys = torch::cat({k, torch::zeros_like(k.narrow(0, 0, 1))});  // (S + 1, D)
  AttentionArgs args{.need_weights = true};
  if (mask.defined()) {
    args.mask = torch::cat({mask, torch::zeros_like(mask.narrow(1, 0, 1))}, 1);
    if (mask.scalar_type() == torch::kBool) args.mask.select(1, -1).fill_(true);
  }
  const auto weights = attend::dot_product_attention(q, keys, keys, args, {.scale = scale}).weights;
  return torch::log(weights.slice(1, 0, -1) / weights.slice(1, -1));  // (T, S)
}

}  // namespace attend
