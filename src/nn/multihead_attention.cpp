#include "attend/nn/multihead_attention.h"

#include "attend/nn/kv_cache.h"
#include "attend/nn/linear.h"
#include "nn/adapters.h"
#include "nn/checks.h"
#include "nn/decoding_plan.h"
#include "nn/head_sizes.h"
#include "nn/kv_cache_hook.h"
#include "nn/new_layers.h"
#include "nn/shared_masks.h"
#include "nn/submodules.h"
#include "ops/attention_checks.h"
#include "ops/autocast.h"

#include <array>
#include <numeric>
#include <optional>
#include <tuple>

namespace attend {
namespace {

/// Checks the arguments that have one entry per token. Called before the heads are split:
/// afterwards, the heads (H, T, D) of a single sequence would look like a batch of H sequences.
void check_tokens(const AttentionArgs& args, const torch::Tensor& query, const torch::Tensor& key) {
  check_per_token("key_mask", args.key_mask, key);
  check_per_token("segments", args.segments, query);
  check_per_token("key_segments", args.key_segments, key);
  check_per_token("positions", args.positions, query);
  check_per_token("key_positions", args.key_positions, key);
}

/// Under autocast, casts queries, keys and values back to `dtype`, because a norm in a hook may
/// have returned float32. Otherwise, does nothing.
void undo_autocast(AttentionContext& context, torch::ScalarType dtype) {
  for (auto* heads : {&context.query, &context.key, &context.value}) {
    if (heads->scalar_type() == dtype) continue;
    if (autocast_dtype(heads->device().type())) *heads = heads->to(dtype);
  }
}

}  // namespace

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& options)
    : options(options) {
  reset();
}

void MultiheadAttentionImpl::reset() {
  const int64_t embed_dim = options.embed_dim();
  const int64_t num_heads = options.num_heads();
  const int64_t num_kv_heads = num_kv_heads_of(options);
  check_heads(embed_dim, num_heads, num_kv_heads, options.head_dim().has_value());
  check_probability("dropout", options.dropout());
  if (options.scale()) check_finite("scale", *options.scale());
  const int64_t head_dim = head_dim_of(options);
  const int64_t kdim = options.kdim().value_or(embed_dim);
  const int64_t vdim = options.vdim().value_or(embed_dim);
  check_positive("head_dim", head_dim);
  check_positive("kdim", kdim);
  check_positive("vdim", vdim);
  dims_ = {embed_dim, num_heads, num_kv_heads, head_dim};

  const bool qkv_bias = options.bias() || options.qkv_bias();
  const auto use_linear = [&](const char* name, torch::nn::Linear MultiheadAttentionImpl::*member,
                              int64_t from, int64_t to, bool bias) {
    use(name, member, new_linear(torch::nn::LinearOptions(from, to).bias(bias)));
  };
  const int64_t inner = num_heads * head_dim;
  const int64_t kv_inner = num_kv_heads * head_dim;
  if (kdim == embed_dim && vdim == embed_dim) {
    use_linear("qkv", &MultiheadAttentionImpl::qkv, embed_dim, inner + 2 * kv_inner, qkv_bias);
  } else {
    use_linear("query", &MultiheadAttentionImpl::query, embed_dim, inner, qkv_bias);
    use_linear("key", &MultiheadAttentionImpl::key, kdim, kv_inner, qkv_bias);
    use_linear("value", &MultiheadAttentionImpl::value, vdim, kv_inner, qkv_bias);
  }
  use_linear("out", &MultiheadAttentionImpl::out, inner, embed_dim, options.bias());

  hooks_.clear();
  for (const auto& factory : options.hooks()) {
    TORCH_CHECK_VALUE(!factory.name.empty() && factory.name.find('.') == std::string::npos,
                      "AttentionHookFactory::name must not be empty or contain a dot, found '",
                      factory.name, "': set it to the name of the submodule, e.g. \"rotary\"");
    TORCH_CHECK_VALUE(factory.make, "hook ", factory.name,
                      " has an empty factory: set AttentionHookFactory::make");
    const auto module = factory.make(dims_);
    hooks_.push_back({factory.name, module, dynamic_cast<AttentionHook*>(module.get())});
    TORCH_CHECK_TYPE(hooks_.back().hook != nullptr, "hook ", factory.name,
                     " must be an AttentionHook, found ", module ? module->name() : "null");
    register_module(factory.name, module);
  }
}

void MultiheadAttentionImpl::check_submodules() const {
  Cloneable::check_submodules();
  const auto submodules = children();
  for (const auto& each : hooks_) check_registered(*this, submodules, each.name, each.module);
}

AttentionOutput MultiheadAttentionImpl::forward(const torch::Tensor& x, const AttentionArgs& args,
                                                const ForwardState& state) {
  check_sequence("MultiheadAttention", x, dims_.embed_dim);
  TORCH_CHECK_VALUE(qkv, "forward requires kdim (", key->options.in_features(), ") and vdim (",
                    value->options.in_features(), ") to equal embed_dim (", dims_.embed_dim,
                    "); for cross-attention, call cross(query, key, value)");
  check_tokens(args, x, x);
  if (const auto y = decoding_step(*this, x, args, state); y.defined()) return {y, {}};
  const auto qkv_heads = project(x, 0, 3);
  return attend_heads({.input = x,
                       .query = qkv_heads[0],
                       .key = qkv_heads[1],
                       .value = qkv_heads[2],
                       .args = args,
                       .state = state});
}

AttentionOutput MultiheadAttentionImpl::cross(const torch::Tensor& query_input,
                                              const torch::Tensor& key_input,
                                              const torch::Tensor& value_input,
                                              const AttentionArgs& args,
                                              const ForwardState& state) {
  check_sequence("MultiheadAttention", query_input, dims_.embed_dim);
  check_sequence("MultiheadAttention", key_input, options.kdim().value_or(dims_.embed_dim));
  check_sequence("MultiheadAttention", value_input, options.vdim().value_or(dims_.embed_dim));
  check_tokens(args, query_input, key_input);
  AttentionContext context{.input = query_input,
                           .query = project(query_input, 0, 1)[0],
                           .args = args,
                           .state = state,
                           .cross = true};
  context.state.cache = nullptr;  // otherwise, attend_heads would append to the cache
  if (key_input.is_same(value_input)) {
    const auto project_memory = [&] {
      const auto key_value = project(key_input, 1, 2);
      return std::pair(key_value[0], key_value[1]);
    };
    std::tie(context.key, context.value) =
        state.cache != nullptr
            ? state.cache->memory_keys(state.layer, key_input, context.query.scalar_type(),
                                       project_memory)
            : project_memory();
  } else {
    context.key = project(key_input, 1, 1)[0];
    context.value = project(value_input, 2, 1)[0];
  }
  return attend_heads(std::move(context));
}

std::vector<torch::Tensor> MultiheadAttentionImpl::project(const torch::Tensor& x,
                                                           std::size_t first, std::size_t count) {
  const auto split_heads = [&](const torch::Tensor& y) {
    return y.unflatten(-1, {-1, dims_.head_dim}).transpose(-3, -2);  // (..., heads, T, D)
  };
  if (!qkv) {
    const std::array<torch::nn::Linear, 3> projections{query, key, value};
    std::vector<torch::Tensor> projected;
    for (auto i = first; i < first + count; ++i) {
      projected.push_back(split_heads(apply_linear(x, projections[i])));
    }
    return projected;
  }
  const std::array<int64_t, 3> heads{dims_.num_heads, dims_.num_kv_heads, dims_.num_kv_heads};
  const auto begin = std::accumulate(heads.begin(), heads.begin() + first, int64_t{0});
  const at::IntArrayRef counts(heads.data() + first, count);
  const auto end = std::accumulate(counts.begin(), counts.end(), begin);
  const auto y = count == 3
                     ? apply_linear(x, qkv)
                     : apply_linear_rows(x, qkv, {begin * dims_.head_dim, end * dims_.head_dim});
  return split_heads(y).split_with_sizes(counts, -3);
}

AttentionOutput MultiheadAttentionImpl::attend_heads(AttentionContext context) {
  context.options.scale = options.scale();
  context.options.dropout = is_training() ? options.dropout() : 0.0;
  std::optional<KvCacheHook> cache_hook;
  if (context.state.cache != nullptr) cache_hook.emplace(*context.state.cache);
  const auto for_each_hook = [&](const auto& call) {
    if (cache_hook) call(*cache_hook);
    if (context.state.hook != nullptr) call(*context.state.hook);
    for (const auto& each : hooks_) call(*each.hook);
  };

  const auto dtype = context.value.scalar_type();
  for_each_hook([&](AttentionHook& hook) {
    hook.after_projection(context);
    undo_autocast(context, dtype);
  });
  for_each_hook([&](AttentionHook& hook) {
    hook.before_attention(context);
    undo_autocast(context, dtype);
  });
  SharedMasks masks(context);
  const auto score_options = context.options;  // a copy, because `masks` adds biases to the context
  auto result = attend({context.query, context.key, context.value, context.args, score_options,
                        /*self_attention=*/!context.cross},
                       masks);
  for_each_hook(
      [&](AttentionHook& hook) { result.output = hook.after_attention(context, result.output); });
  result.output = apply_linear(result.output.transpose(-3, -2).flatten(-2), out);  // (..., T, E)
  return result;
}

void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::MultiheadAttention(embed_dim=" << dims_.embed_dim
         << ", num_heads=" << dims_.num_heads << ", num_kv_heads=" << dims_.num_kv_heads
         << ", head_dim=" << dims_.head_dim << std::boolalpha << ", bias=" << options.bias()
         << ", qkv_bias=" << (options.bias() || options.qkv_bias())
         << ", dropout=" << options.dropout();
  if (options.scale()) stream << ", scale=" << *options.scale();
  stream << ")";
}

}  // namespace attend
