#pragma once

#include "attend/nn/linear.h"
#include "nn/checks.h"
#include "nn/new_layers.h"

#include <torch/nn/modules/linear.h>

#include <cmath>

namespace attend {

/// Throws c10::ValueError if logit_scale or final_logit_soft_cap of `config` is out of range.
template <typename Config>
void check_logit_options(const Config& config) {
  TORCH_CHECK_VALUE(std::isfinite(config.logit_scale) && config.logit_scale != 0.0, "logit_scale (",
                    config.logit_scale, ") must be finite and not 0");
  TORCH_CHECK_VALUE(
      std::isfinite(config.final_logit_soft_cap) && config.final_logit_soft_cap >= 0.0,
      "final_logit_soft_cap (", config.final_logit_soft_cap,
      ") must be positive and finite, or 0 for none");
}

/// Returns the logits (..., T, V) of the hidden states `x` (..., T, E). The hidden states are
/// projected with `embedding` (V, E) if the embeddings are tied, else with `head`. The result is
/// scaled, then soft-capped.
template <typename Config>
torch::Tensor output_logits(const torch::Tensor& x, const torch::Tensor& embedding,
                            const torch::nn::Linear& head, const Config& config) {
  auto logits =
      config.tie_embeddings ? apply_linear(x, embedding) : apply_linear(x, head);  // (..., T, V)
  if (config.logit_scale != 1.0) logits = logits * config.logit_scale;
  const double cap = config.final_logit_soft_cap;
  return cap == 0.0 ? logits : torch::tanh(logits / cap) * cap;
}

/// Returns a head whose weight has the memory of `embedding` (V, E).
inline torch::nn::Linear head_of(const torch::Tensor& embedding) {
  const UninitializedWeights guard(embedding.scalar_type());
  auto head =
      new_linear(torch::nn::LinearOptions(embedding.size(1), embedding.size(0)).bias(false));
  head->weight.set_data(embedding.detach());
  head->weight.set_requires_grad(embedding.requires_grad());
  return head;
}

/// True if the logits with `head` are those with the weight `embedding` (V, E).
inline bool is_same_head(const torch::nn::Linear& head, const torch::Tensor& embedding) {
  return head->children().empty() && head->weight.equal(embedding);
}

}  // namespace attend
