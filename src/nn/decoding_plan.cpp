#include "nn/decoding_plan.h"

#include "attend/nn/kv_cache.h"
#include "attend/nn/qk_norm.h"
#include "attend/nn/rotary.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/stochastic_depth.h"
#include "nn/adapters.h"
#include "ops/prepared_mask.h"

#include <algorithm>
#include <limits>
#include <typeinfo>
#include <utility>
#include <variant>

namespace attend {
namespace {

/// Returns `module` if its class is `Module` itself, else null. `module` may be null.
template <typename Module>
const Module* exactly(const torch::nn::Module* module) {
  if (module == nullptr || typeid(*module) != typeid(Module)) return nullptr;
  return static_cast<const Module*>(module);
}

std::optional<StepNorm> norm_of(const torch::nn::AnyModule& any) {
  const auto module = any.ptr();
  if (const auto* norm = exactly<LayerNormImpl>(module.get())) return step_of(*norm);
  if (const auto* norm = exactly<RMSNormImpl>(module.get())) return step_of(*norm);
  return {};
}

bool changes_nothing(const Residual::Named& each) {
  const auto module = each.module.ptr();
  const bool is_dropout = exactly<torch::nn::DropoutImpl>(module.get()) != nullptr ||
                          exactly<StochasticDepthImpl>(module.get()) != nullptr;
  return is_dropout && !module->is_training();
}

/// Returns the norm if the branch computes x + f(norm(x)) in its current mode.
std::optional<StepNorm> norm_of(const Residual& residual) {
  const bool is_plain =
      residual.before().size() == 1 && residual.after().empty() &&
      std::all_of(residual.inside().begin(), residual.inside().end(), changes_nothing);
  return is_plain ? norm_of(residual.before().front().module) : std::nullopt;
}

/// Returns true if each sequence gets one token, and attention is only causal.
bool is_step(const torch::Tensor& x, const AttentionArgs& args, const ForwardState& state) {
  return state.cache != nullptr && state.hook == nullptr && x.dim() == 3 && x.size(1) == 1 &&
         only_causal(args) && !args.key_segments.defined() && !args.key_positions.defined() &&
         !computes_weights(args, {});
}

/// The hooks of an attention that are phases of a step, in this order.
struct StepHooks {
  const QKNormImpl* qk_norm = nullptr;
  const RotaryImpl* rotary = nullptr;
  int64_t sliding_window = 0;  // 0 = none
};

/// Returns std::nullopt if the attention has other hooks, or hooks in another order.
std::optional<StepHooks> hooks_of(const MultiheadAttentionImpl& attention) {
  StepHooks hooks;
  for (const auto& each : attention.hooks()) {
    const auto* module = each.module.get();
    if (const auto* window = exactly<SlidingWindowImpl>(module)) {
      const auto size = window->sliding_window;
      hooks.sliding_window =
          hooks.sliding_window == 0 ? size : std::min(hooks.sliding_window, size);
      continue;
    }
    if (hooks.rotary != nullptr) return {};
    hooks.rotary = exactly<RotaryImpl>(module);
    if (hooks.rotary != nullptr) continue;
    if (hooks.qk_norm != nullptr) return {};
    hooks.qk_norm = exactly<QKNormImpl>(module);
    if (hooks.qk_norm == nullptr) return {};
  }
  return hooks;
}

/// Returns the step of an attention, without the rotation, if the modules and the cache support it.
/// Requires `is_step`.
std::optional<AttentionStep> step_of(const MultiheadAttentionImpl& attention,
                                     const std::optional<StepNorm>& norm, const StepHooks& hooks,
                                     const torch::Tensor& x, const KvCache& cache, int64_t layer) {
  const auto& dims = attention.dims();
  const bool has_dropout = attention.is_training() && attention.options.dropout() > 0;
  if (!attention.qkv || has_dropout) return {};
  if (has_adapters(*attention.qkv) || has_adapters(*attention.out)) return {};
  const auto* qk_norm = hooks.qk_norm;
  AttentionStep step{.norm = norm,
                     .qkv = {attention.qkv->weight, attention.qkv->bias},
                     .out = {attention.out->weight, attention.out->bias},
                     .num_heads = dims.num_heads,
                     .num_kv_heads = dims.num_kv_heads,
                     .head_dim = dims.head_dim,
                     .scale = attention.options.scale(),
                     .query_norm = qk_norm != nullptr ? norm_of(qk_norm->query) : std::nullopt,
                     .key_norm = qk_norm != nullptr ? norm_of(qk_norm->key) : std::nullopt,
                     .sliding_window = hooks.sliding_window};
  const bool has_norms = qk_norm == nullptr || (step.query_norm && step.key_norm);
  // Otherwise, attention throws an exception.
  const bool in_window = cache.sliding_window() == 0 ||
                         (step.sliding_window > 0 && step.sliding_window <= cache.sliding_window());
  if (!has_norms || !in_window || !prepare(x, step)) return {};
  if (!cache.can_append_token(layer, x.size(0), step.num_kv_heads, step.head_dim)) return {};
  return step;
}

torch::Tensor run_step(const torch::Tensor& x, const AttentionStep& step, KvCache& cache,
                       int64_t layer) {
  const auto slots = cache.append_token(layer);
  return attention_step(x, step, {slots.keys, slots.values, slots.lengths});
}

}  // namespace

std::optional<DecodingPlan> DecodingPlan::of(const torch::nn::ModuleListImpl& blocks,
                                             const torch::Tensor& x, const AttentionArgs& args,
                                             const ForwardState& state) {
  if (!is_step(x, args, state)) return {};
  DecodingPlan plan(*state.cache, /*first_layer=*/0);
  for (const auto& block : blocks) {
    if (!plan.add(*block->as<TransformerBlock>(), x)) return {};
  }
  return plan;
}

std::optional<DecodingPlan> DecodingPlan::of(TransformerBlockImpl& block, const torch::Tensor& x,
                                             const AttentionArgs& args, const ForwardState& state) {
  if (!is_step(x, args, state)) return {};
  DecodingPlan plan(*state.cache, state.layer);
  return plan.add(block, x) ? std::make_optional(std::move(plan)) : std::nullopt;
}

bool DecodingPlan::add(TransformerBlockImpl& block, const torch::Tensor& x) {
  if (block.options.residual().norm_order() != NormOrder::pre) return false;
  const auto norm1 = norm_of(block.residual1());
  const auto norm2 = norm_of(block.residual2());
  const auto hooks = hooks_of(*block.attention);
  if (!norm1 || !norm2 || !hooks) return false;
  const auto layer = first_layer_ + static_cast<int64_t>(layers_.size());
  auto attention = step_of(*block.attention, norm1, *hooks, x, *cache_, layer);
  if (!attention) return false;
  if (hooks->rotary != nullptr) {
    attention->rotation = rotation_of(*hooks->rotary);
    attention->interleaved = hooks->rotary->options.interleaved;
  }
  const auto module = block.feed_forward.ptr();
  const auto* feed_forward = exactly<FeedForwardImpl>(module.get());
  layers_.push_back({&block, *std::move(attention),
                     feed_forward != nullptr ? step_of(*feed_forward, x, norm2) : std::nullopt});
  return true;
}

std::shared_ptr<const StepRotation> DecodingPlan::rotation_of(const RotaryImpl& rotary) {
  const auto scaling = rotary_attention_scaling(rotary.options);
  if (rotation_ == nullptr || *frequencies_ != rotary.frequencies() || scaling != scaling_) {
    frequencies_ = &rotary.frequencies();
    scaling_ = scaling;
    rotation_ = std::make_shared<StepRotation>(
        step_rotation(cache_->lengths(), rotary.frequencies(), scaling));
  }
  return rotation_;
}

torch::Tensor DecodingPlan::run(const torch::Tensor& x) {
  auto y = x;
  auto layer = first_layer_;
  for (const auto& each : layers_) {
    y = run_step(y, each.attention, *cache_, layer++);
    y = each.feed_forward ? feed_forward_step(y, *each.feed_forward)
                          : each.block->residual2()(y, [&](const torch::Tensor& h) {
                              return each.block->feed_forward.forward(h);
                            });
  }
  return y;
}

StepNorm step_of(const LayerNormImpl& norm) {
  return {norm.weight, norm.bias, norm.options.eps(), /*subtracts_mean=*/true};
}

StepNorm step_of(const RMSNormImpl& norm) {
  static const torch::Tensor no_bias;
  const auto eps = norm.options.eps().value_or(std::numeric_limits<float>::epsilon());
  return {norm.weight, no_bias, eps, /*subtracts_mean=*/false};
}

torch::Tensor decoding_step(const MultiheadAttentionImpl& attention, const torch::Tensor& x,
                            const AttentionArgs& args, const ForwardState& state) {
  if (!is_step(x, args, state) || !attention.hooks().empty()) return {};
  const auto step = step_of(attention, {}, {}, x, *state.cache, state.layer);
  return step ? run_step(x, *step, *state.cache, state.layer) : torch::Tensor();
}

std::optional<FeedForwardStep> step_of(const FeedForwardImpl& feed_forward, const torch::Tensor& x,
                                       const std::optional<StepNorm>& norm) {
  const auto& dropout = feed_forward.dropout;
  const auto* activation = std::get_if<Activation>(&feed_forward.options.activation());
  const bool has_dropout = dropout->is_training() && dropout->options.p() > 0;
  if (activation == nullptr || has_dropout) return {};
  if (has_adapters(*feed_forward.up) || has_adapters(*feed_forward.down)) return {};
  FeedForwardStep step{.norm = norm,
                       .up = {feed_forward.up->weight, feed_forward.up->bias},
                       .down = {feed_forward.down->weight, feed_forward.down->bias},
                       .activation = *activation};
  return prepare(x, step) ? std::make_optional(std::move(step)) : std::nullopt;
}

}  // namespace attend
