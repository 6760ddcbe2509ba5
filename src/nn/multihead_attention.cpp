#include "attend/nn/multihead_attention.h"

#include "nn/checks.h"

#include <torch/nn/functional/linear.h>

namespace attend {

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& options)
    : options(options) {
  reset();
}

void MultiheadAttentionImpl::reset() {
  const int64_t embed_dim = options.embed_dim();
  const int64_t num_heads = options.num_heads();
  check_positive("embed_dim", embed_dim);
  check_positive("num_heads", num_heads);
  check_probability("dropout", options.dropout());
  TORCH_CHECK_VALUE(options.head_dim() || embed_dim % num_heads == 0, "embed_dim (", embed_dim,
                    ") must be divisible by num_heads (", num_heads, ")");
  head_dim_ = options.head_dim().value_or(embed_dim / num_heads);
  check_positive("head_dim", head_dim_);

  using torch::nn::LinearOptions;
  const int64_t inner = num_heads * head_dim_;
  qkv = register_module(
      "qkv", torch::nn::Linear(LinearOptions(embed_dim, 3 * inner).bias(options.bias())));
  out = register_module("out",
                        torch::nn::Linear(LinearOptions(inner, embed_dim).bias(options.bias())));
}

AttentionOutput MultiheadAttentionImpl::forward(const torch::Tensor& x, const AttentionArgs& args) {
  check_width("MultiheadAttention", x, options.embed_dim());
  const auto heads = project(x, 0, 3);
  return attend_heads(heads[0], heads[1], heads[2], args);
}

AttentionOutput MultiheadAttentionImpl::cross(const torch::Tensor& query, const torch::Tensor& key,
                                              const torch::Tensor& value,
                                              const AttentionArgs& args) {
  for (const auto& x : {query, key, value}) {
    check_width("MultiheadAttention", x, options.embed_dim());
  }
  const auto q = project(query, 0, 1);
  if (key.is_same(value)) {
    const auto kv = project(key, 1, 2);
    return attend_heads(q[0], kv[0], kv[1], args);
  }
  return attend_heads(q[0], project(key, 1, 1)[0], project(value, 2, 1)[0], args);
}

std::vector<torch::Tensor> MultiheadAttentionImpl::project(const torch::Tensor& x, int64_t first,
                                                           int64_t count) const {
  const int64_t inner = options.num_heads() * head_dim_;
  const auto rows = [&](const torch::Tensor& parameter) {
    if (count == 3 || !parameter.defined()) return parameter;
    return parameter.narrow(0, first * inner, count * inner);
  };
  auto parts = torch::nn::functional::linear(x, rows(qkv->weight), rows(qkv->bias))
                   .unflatten(-1, {count, options.num_heads(), head_dim_})  // (..., T, count, H, D)
                   .unbind(-3);                                             // each (..., T, H, D)
  for (auto& part : parts) part = part.transpose(-3, -2);                   // (..., H, T, D)
  return parts;
}

AttentionOutput MultiheadAttentionImpl::attend_heads(const torch::Tensor& query,
                                                     const torch::Tensor& key,
                                                     const torch::Tensor& value,
                                                     const AttentionArgs& args) {
  const double dropout = is_training() ? options.dropout() : 0.0;
  auto result = dot_product_attention(query, key, value, args, dropout);
  result.output = out(result.output.transpose(-3, -2).flatten(-2));  // (..., T, E)
  return result;
}

void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::MultiheadAttention(embed_dim=" << options.embed_dim()
         << ", num_heads=" << options.num_heads() << ", head_dim=" << head_dim_ << std::boolalpha
         << ", bias=" << options.bias() << ", dropout=" << options.dropout() << ")";
}

}  // namespace attend
