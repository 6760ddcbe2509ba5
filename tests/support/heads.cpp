#include "support/heads.h"

#include "support/seed.h"

#include <torch/nn/functional/linear.h>

namespace attend {

MultiheadAttentionOptions draw_attention_options() {
  const int64_t num_kv_heads = draw(1, 2);
  const int64_t num_heads = num_kv_heads * draw(1, 3);
  return MultiheadAttentionOptions(draw(2, 6), num_heads)
      .num_kv_heads(num_kv_heads)
      .head_dim(draw(1, 4));
}

MultiheadAttention randomized_attention(const MultiheadAttentionOptions& options) {
  MultiheadAttention attention(options);
  attention->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : attention->parameters()) parameter.normal_(0.0, 0.5);
  return attention;
}

ProjectedHeads project_heads(const MultiheadAttention& attention, const torch::Tensor& x) {
  const int64_t num_heads = attention->options.num_heads();
  const int64_t num_kv_heads = attention->options.num_kv_heads().value_or(num_heads);
  const int64_t head_dim = attention->qkv->weight.size(0) / (num_heads + 2 * num_kv_heads);
  const auto projected =
      torch::nn::functional::linear(x, attention->qkv->weight, attention->qkv->bias).detach();
  const auto parts = projected.split_with_sizes(
      {num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * head_dim}, -1);
  const auto heads_of = [&](const torch::Tensor& part) {
    const auto heads = part.unflatten(-1, {-1, head_dim}).transpose(1, 2);  // (B, H or G, T, D)
    return heads.repeat_interleave(num_heads / heads.size(1), 1).contiguous();
  };
  return {heads_of(parts[0]), heads_of(parts[1]), heads_of(parts[2])};
}

torch::Tensor join_heads(const MultiheadAttention& attention, const torch::Tensor& results) {
  const auto joined = results.transpose(1, 2).flatten(2);  // (B, T, H * D)
  return torch::nn::functional::linear(joined, attention->out->weight, attention->out->bias);
}

}  // namespace attend
