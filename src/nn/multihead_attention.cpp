#include "attend/nn/multihead_attention.h"

#include "nn/checks.h"
#include "ops/attention_checks.h"

#include <torch/nn/functional/linear.h>

#include <array>

namespace attend {
namespace {

/// Before the heads are split: one of several heads could be taken for one of several sequences.
void check_tokens(const AttentionArgs& args, const torch::Tensor& query, const torch::Tensor& key) {
  check_per_token("key_mask", args.key_mask, key);
  check_per_token("segments", args.segments, query);
  check_per_token("key_segments", args.key_segments, key);
  check_per_token("positions", args.positions, query);
  check_per_token("key_positions", args.key_positions, key);
}

}  // namespace

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& options)
    : options(options) {
  reset();
}

void MultiheadAttentionImpl::reset() {
  const int64_t embed_dim = options.embed_dim();
  const int64_t num_heads = options.num_heads();
  const int64_t num_kv_heads = options.num_kv_heads().value_or(num_heads);
  check_positive("embed_dim", embed_dim);
  check_positive("num_heads", num_heads);
  check_positive("num_kv_heads", num_kv_heads);
  check_probability("dropout", options.dropout());
  TORCH_CHECK_VALUE(options.head_dim() || embed_dim % num_heads == 0, "embed_dim (", embed_dim,
                    ") must be divisible by num_heads (", num_heads, ")");
  TORCH_CHECK_VALUE(num_heads % num_kv_heads == 0, "num_heads (", num_heads,
                    ") must be divisible by num_kv_heads (", num_kv_heads, ")");
  const int64_t head_dim = options.head_dim().value_or(embed_dim / num_heads);
  const int64_t kdim = options.kdim().value_or(embed_dim);
  const int64_t vdim = options.vdim().value_or(embed_dim);
  check_positive("head_dim", head_dim);
  check_positive("kdim", kdim);
  check_positive("vdim", vdim);
  shape_ = {embed_dim, num_heads, num_kv_heads, head_dim};

  const auto linear = [&](const char* name, int64_t from, int64_t to) {
    const auto linear_options = torch::nn::LinearOptions(from, to).bias(options.bias());
    return register_module(name, torch::nn::Linear(linear_options));
  };
  const int64_t inner = num_heads * head_dim;
  const int64_t kv_inner = num_kv_heads * head_dim;
  if (kdim == embed_dim && vdim == embed_dim) {
    qkv = linear("qkv", embed_dim, inner + 2 * kv_inner);
  } else {
    query = linear("query", embed_dim, inner);
    key = linear("key", kdim, kv_inner);
    value = linear("value", vdim, kv_inner);
  }
  out = linear("out", inner, embed_dim);

  hooks_.clear();
  for (const auto& factory : options.hooks()) {
    const auto module = factory.make(shape_);
    hooks_.push_back(std::dynamic_pointer_cast<AttentionHook>(module));
    TORCH_CHECK_TYPE(hooks_.back() != nullptr, "the part ", factory.name,
                     " must be an AttentionHook, found ", module ? module->name() : "null");
    register_module(factory.name, module);
  }
}

AttentionOutput MultiheadAttentionImpl::forward(const torch::Tensor& x, const AttentionArgs& args,
                                                const ForwardState& state) {
  check_sequence("MultiheadAttention", x, shape_.embed_dim);
  TORCH_CHECK_VALUE(qkv, "MultiheadAttention with kdim (", key->options.in_features(),
                    ") and vdim (", value->options.in_features(),
                    ") is for cross-attention: call cross");
  check_tokens(args, x, x);
  const auto heads = project(x, 0, 3);
  return attend_heads({x, heads[0], heads[1], heads[2], args, {}, state, /*cross=*/false});
}

AttentionOutput MultiheadAttentionImpl::cross(const torch::Tensor& query_input,
                                              const torch::Tensor& key_input,
                                              const torch::Tensor& value_input,
                                              const AttentionArgs& args) {
  check_sequence("MultiheadAttention", query_input, shape_.embed_dim);
  check_sequence("MultiheadAttention", key_input, options.kdim().value_or(shape_.embed_dim));
  check_sequence("MultiheadAttention", value_input, options.vdim().value_or(shape_.embed_dim));
  check_tokens(args, query_input, key_input);
  const auto q = project(query_input, 0, 1)[0];
  if (key_input.is_same(value_input)) {
    const auto kv = project(key_input, 1, 2);
    return attend_heads({query_input, q, kv[0], kv[1], args, {}, {}, /*cross=*/true});
  }
  const auto k = project(key_input, 1, 1)[0];
  const auto v = project(value_input, 2, 1)[0];
  return attend_heads({query_input, q, k, v, args, {}, {}, /*cross=*/true});
}

std::vector<torch::Tensor> MultiheadAttentionImpl::project(const torch::Tensor& x,
                                                           std::size_t first, std::size_t count) {
  std::vector<torch::Tensor> parts;
  if (qkv) {
    const int64_t inner = shape_.num_heads * shape_.head_dim;
    const int64_t kv_inner = shape_.num_kv_heads * shape_.head_dim;
    const std::array<int64_t, 4> begin{0, inner, inner + kv_inner, inner + 2 * kv_inner};
    const auto rows = [&](const torch::Tensor& parameter) {
      if (count == 3 || !parameter.defined()) return parameter;
      return parameter.slice(0, begin[first], begin[first + count]);
    };
    std::vector<int64_t> widths;
    for (auto i = first; i < first + count; ++i) widths.push_back(begin[i + 1] - begin[i]);
    parts = torch::nn::functional::linear(x, rows(qkv->weight), rows(qkv->bias))
                .split_with_sizes(widths, -1);  // each (..., T, heads * D)
  } else {
    const std::array<torch::nn::Linear, 3> projections{query, key, value};
    for (auto i = first; i < first + count; ++i) {
      auto projection = projections[i];
      parts.push_back(projection(x));
    }
  }
  for (auto& part : parts) {
    part = part.unflatten(-1, {-1, shape_.head_dim}).transpose(-3, -2);  // (..., heads, T, D)
  }
  return parts;
}

AttentionOutput MultiheadAttentionImpl::attend_heads(AttentionContext context) {
  context.options.scale = options.scale();
  context.options.dropout = is_training() ? options.dropout() : 0.0;
  std::vector<AttentionHook*> parts;
  if (context.state.cache != nullptr) parts.push_back(context.state.cache);
  for (const auto& part : hooks_) parts.push_back(part.get());

  for (auto* part : parts) part->after_projection(context);
  for (auto* part : parts) part->before_attention(context);
  auto result = dot_product_attention(context.query, context.key, context.value, context.args,
                                      context.options);
  for (auto* part : parts) result.output = part->after_attention(context, result.output);
  result.output = out(result.output.transpose(-3, -2).flatten(-2));  // (..., T, E)
  return result;
}

void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::MultiheadAttention(embed_dim=" << shape_.embed_dim
         << ", num_heads=" << shape_.num_heads << ", num_kv_heads=" << shape_.num_kv_heads
         << ", head_dim=" << shape_.head_dim << std::boolalpha << ", bias=" << options.bias()
         << ", dropout=" << options.dropout() << ")";
}

}  // namespace attend
