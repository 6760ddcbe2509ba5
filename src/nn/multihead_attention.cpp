#include "attend/nn/multihead_attention.h"

#include "attend/nn/kv_cache.h"
#include "attend/ops/linear.h"
#include "nn/checks.h"
#include "nn/decoding_plan.h"
#include "nn/head_sizes.h"
#include "nn/new_layers.h"
#include "nn/submodules.h"
#include "ops/attention_call.h"
#include "ops/attention_checks.h"
#include "ops/autocast.h"
#include "ops/block_attention.h"
#include "ops/prepared_mask.h"

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

/// Hook that makes an attention layer use a `KvCache`: appends the new keys and values to the
/// cache, replaces them with all keys and values of the cache, and sets the positions and the key
/// mask.
///
///     KvCacheHook hook(cache);
class KvCacheHook : public AttentionHook {
 public:
  explicit KvCacheHook(KvCache& cache) : cache_(cache) {}

  void after_projection(AttentionContext& context) override {
    cache_.check_append(context.state.layer, context.key.size(-2));
    auto& args = context.args;
    TORCH_CHECK_VALUE(!args.positions.defined() && !args.key_positions.defined(),
                      "positions must not be set with a KvCache, which computes them");
    TORCH_CHECK_VALUE(!args.key_mask.defined(),
                      "key_mask must not be set with a KvCache: pass it to KvCache::extend");
    TORCH_CHECK_VALUE(!args.segments.defined() && !args.key_segments.defined(),
                      "segments must not be set with a KvCache: each row of the batch is one "
                      "sequence");
    TORCH_CHECK_VALUE(!args.mask.defined() || cache_.is_aligned(), "mask ", args.mask.sizes(),
                      " requires a KvCache whose sequences have equal lengths, whose last "
                      "KvCache::extend had no padding, and in which no tokens were overwritten");
    TORCH_CHECK_VALUE(args.causal || args.mask.defined(),
                      "causal must be true with a KvCache: earlier tokens cannot attend to later "
                      "ones; for other patterns pass a mask (T, S)");
    args.positions = cache_.query_positions();
  }

  void before_attention(AttentionContext& context) override {
    std::tie(context.key, context.value) =
        cache_.append(context.state.layer, context.key, context.value);
    auto& args = context.args;
    if (cache_.is_aligned()) {
      // The default positions are correct: the last query has the position of the last key. With
      // default positions, a single query needs no causal mask.
      args.positions.reset();
      return;
    }
    args.key_positions = cache_.key_positions();
    args.key_mask = cache_.key_mask();
  }

  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override {
    // The window is checked here because another hook may set it in before_attention.
    const auto window = context.args.sliding_window;
    TORCH_CHECK_VALUE(
        cache_.sliding_window() == 0 || (window > 0 && window <= cache_.sliding_window()),
        "the attention's sliding_window (", window, window == 0 ? ", none" : "",
        ") must be positive and at most the KvCache's sliding_window (", cache_.sliding_window(),
        ")");
    return output;
  }

 private:
  KvCache& cache_;
};

/// The masks and biases of an attention module. Layers with the same arguments share the mask. They
/// share the sum of mask and bias only if they also share the bias.
class SharedMasks : public MaskSource {
 public:
  explicit SharedMasks(AttentionContext& context) : context_(context) {}

  bool has_offset_bias() const override { return !context_.offset_biases.empty(); }

  torch::Tensor offset_bias(const AttentionCall& call) override {
    torch::Tensor sum;
    for (auto* bias : context_.offset_biases) {
      const auto offsets = all_offsets(call.query, call.key).unsqueeze(0);
      const auto values = bias->bias_of(offsets, context_).squeeze(-2);  // (H, S + T - 1)
      sum = sum.defined() ? sum + values : values;
    }
    return sum;
  }

  PreparedMask mask(const AttentionCall& call) override {
    const auto& [query, key, value, args, _, self_attention] = call;
    for (auto* bias : context_.offset_biases) bias->add_bias(context_);
    const auto& options = context_.options;  // the options of the call, with these biases
    const SharedKey inputs("mask", query,
                           {args.mask, args.key_mask, args.segments, args.key_segments,
                            args.positions, args.key_positions},
                           query.dim(), query.size(-2), key.size(-2), args.causal,
                           args.sliding_window, context_.cross, computes_weights(args, options),
                           options.bias.defined(), options.scale.value_or(1.0) > 0.0);
    const auto mask = context_.state.share(&SharedTensors::masks, inputs, [&] {
      return prepare_mask(call.query, call.key, call.args, context_.options, call.self_attention);
    });
    if (!options.bias.defined()) return mask;
    const auto with_bias = [&] { return add_bias(mask, context_.options.bias, call.query); };
    if (!options.bias.is_same(context_.shared_bias)) return with_bias();
    return context_.state.share(
        &SharedTensors::biased_masks,
        {"mask_with_bias", query, {mask.mask, mask.fully_masked_rows, options.bias}}, with_bias);
  }

 private:
  AttentionContext& context_;
};

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
  const auto rows = [&](const torch::Tensor& parameter) {
    if (count == 3 || !parameter.defined()) return parameter;
    return parameter.slice(0, begin * dims_.head_dim, end * dims_.head_dim);
  };
  return split_heads(apply_linear(x, rows(qkv->weight), rows(qkv->bias)))
      .split_with_sizes(counts, -3);
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
