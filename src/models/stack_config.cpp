#include "attend/models/stack_config.h"

#include "attend/nn/alibi.h"
#include "attend/nn/attention_sinks.h"
#include "attend/nn/branch_scale.h"
#include "attend/nn/initialization.h"
#include "attend/nn/output_gate.h"
#include "attend/nn/query_key_norm.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/rotary.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/smeared_keys.h"
#include "attend/nn/soft_cap.h"
#include "attend/nn/value_residual.h"
#include "nn/checks.h"

#include <cmath>
#include <initializer_list>
#include <variant>

namespace attend::inline models {
namespace {

RotaryOptions rotary_options(const StackConfig& config, int64_t head_dim) {
  TORCH_CHECK_VALUE(config.rotary_share > 0.0 && config.rotary_share <= 1.0, "rotary_share (",
                    config.rotary_share, ") must be above 0 and at most 1");
  // Channels are rotated in pairs.
  const auto rotated = 2 * std::llround(config.rotary_share * static_cast<double>(head_dim) / 2.0);
  return {.theta = config.rotary_theta,
          .rotary_dim = rotated,
          .interleaved = config.rotary_interleaved,
          .scaling = config.rotary_scaling,
          .factor = config.rotary_factor,
          .original_context = config.rotary_context};
}

/// What every attention of the model has, over itself or over a memory.
MultiheadAttentionOptions attention_options(const StackConfig& config) {
  auto options = MultiheadAttentionOptions(config.embed_dim, config.heads)
                     .bias(config.bias)
                     .dropout(config.dropout);
  if (config.kv_heads != 0) options.num_kv_heads(config.kv_heads);
  if (config.head_dim != 0) options.head_dim(config.head_dim);
  if (config.qk_norm == QueryKeyNormKind::rms) options.add(query_key_norm(rms_norm()));
  if (config.qk_norm == QueryKeyNormKind::l2) options.add(query_key_norm(l2_norm()));
  if (config.soft_cap > 0) options.add(soft_cap(config.soft_cap));
  if (config.sinks) options.add(attention_sinks());
  if (config.output_gate) options.add(output_gate());
  return options;
}

MultiheadAttentionOptions self_attention_options(const StackConfig& config, bool causal) {
  auto options = attention_options(config);
  if (config.smeared_keys) options.add(smeared_keys());
  if (config.value_residual) options.add(value_residual());
  if (config.positions == PositionScheme::rotary) {
    const auto head_dim = config.head_dim != 0 ? config.head_dim : config.embed_dim / config.heads;
    options.add(rotary(rotary_options(config, head_dim)));
  }
  if (config.positions == PositionScheme::alibi) options.add(alibi());
  if (config.positions == PositionScheme::relative) {
    options.add(relative_bias({.num_buckets = config.relative_buckets,
                               .max_distance = config.relative_distance,
                               .bidirectional = !causal}));
  }
  if (config.window > 0) options.add(sliding_window(config.window));
  return options;
}

FeedForwardOptions feed_forward_options(const StackConfig& config) {
  auto options = FeedForwardOptions(config.embed_dim)
                     .bias(config.bias)
                     .activation(config.activation)
                     .dropout(config.dropout);
  if (config.ff_dim != 0) options.hidden_dim(config.ff_dim);
  return options;
}

ModuleFactory branch_scale(const StackConfig& config) {
  switch (config.branch_scaling) {
    case BranchScaling::none:
      return config.residual_scale == 1.0 ? ModuleFactory() : constant_scale(config.residual_scale);
    case BranchScaling::layer_scale:
      return layer_scale();
    case BranchScaling::rezero:
      return rezero();
  }
  TORCH_CHECK_VALUE(false, "unknown branch_scaling ", static_cast<int>(config.branch_scaling));
}

ResidualOptions residual_options(const StackConfig& config) {
  TORCH_CHECK_VALUE(config.residual_scale == 1.0 || config.branch_scaling == BranchScaling::none,
                    "residual_scale (", config.residual_scale, ") must be 1 with branch_scaling ",
                    to_string(config.branch_scaling));
  return ResidualOptions()
      .norm(config.norm == NormKind::rms ? rms_norm(config.norm_eps)
                                         : layer_norm(config.norm_eps, config.bias))
      .norm_order(config.norm_order)
      .scale(branch_scale(config))
      .dropout(config.dropout)
      .stochastic_depth(config.stochastic_depth);
}

/// A value that means something only beside another one.
struct Dependent {
  const char* name;
  std::variant<int64_t StackConfig::*, double StackConfig::*, bool StackConfig::*,
               RotaryScaling StackConfig::*>
      member;
};

/// Throws c10::ValueError if one of `values` is not the default although what it needs is not
/// there: it would have no effect.
void refuse_without(const char* needed, bool is_there, const StackConfig& config,
                    std::initializer_list<Dependent> values) {
  if (is_there) return;
  for (const auto& value : values) {
    const bool is_default = std::visit(
        [&](auto member) { return config.*member == StackConfig().*member; }, value.member);
    TORCH_CHECK_VALUE(is_default, value.name, " is set, but it has no effect without ", needed);
  }
}

void check_config(const StackConfig& config) {
  check_not_negative("layers", config.layers);
  check_positive("heads", config.heads);
  check_not_negative("kv_heads", config.kv_heads);
  check_not_negative("head_dim", config.head_dim);
  check_not_negative("ff_dim", config.ff_dim);
  check_not_negative("experts", config.experts);
  check_not_negative("window", config.window);
  check_not_negative("soft_cap", config.soft_cap);
  TORCH_CHECK_VALUE(!config.recompute || !config.value_residual,
                    "recompute (true) does not go with value_residual (true), which ties the "
                    "blocks together");
  refuse_without("positions rotary", config.positions == PositionScheme::rotary, config,
                 {{"rotary_theta", &StackConfig::rotary_theta},
                  {"rotary_share", &StackConfig::rotary_share},
                  {"rotary_factor", &StackConfig::rotary_factor},
                  {"rotary_context", &StackConfig::rotary_context},
                  {"rotary_interleaved", &StackConfig::rotary_interleaved},
                  {"rotary_scaling", &StackConfig::rotary_scaling}});
  refuse_without("experts", config.experts > 0, config,
                 {{"experts_per_token", &StackConfig::experts_per_token}});
}

}  // namespace

TransformerEncoderOptions encoder_options(const StackConfig& config, bool causal) {
  check_config(config);
  auto block = TransformerBlockOptions(config.embed_dim, config.heads)
                   .attention(self_attention_options(config, causal))
                   .feed_forward(feed_forward_options(config))
                   .residual(residual_options(config));
  if (config.experts > 0) {
    block.experts(ExpertsOptions(config.experts).top_k(config.experts_per_token));
  }
  return TransformerEncoderOptions(block, config.layers).recompute(config.recompute);
}

TransformerDecoderOptions decoder_options(const StackConfig& config, int64_t layers) {
  check_config(config);
  TORCH_CHECK_VALUE(config.experts == 0, "experts (", config.experts,
                    ") must be 0: blocks with cross-attention route no tokens");
  const auto block = DecoderBlockOptions(config.embed_dim, config.heads)
                         .attention(self_attention_options(config, /*causal=*/true))
                         .cross_attention(attention_options(config))
                         .feed_forward(feed_forward_options(config))
                         .residual(residual_options(config));
  return TransformerDecoderOptions(block, layers).recompute(config.recompute);
}

TokenEmbeddingOptions embedding_options(const StackConfig& config, int64_t vocab_size,
                                        int64_t context) {
  auto options =
      TokenEmbeddingOptions(vocab_size, config.embed_dim, context).dropout(config.dropout);
  if (config.positions == PositionScheme::learned) return options.positions(Positions::learned);
  if (config.positions == PositionScheme::sinusoidal) {
    return options.positions(Positions::sinusoidal);
  }
  return options.positions(Positions::none);
}

KvCacheOptions cache_options(const StackConfig& config, int64_t layers, int64_t batch,
                             int64_t context) {
  const int64_t kv_heads = config.kv_heads != 0 ? config.kv_heads : config.heads;
  const int64_t head_dim = config.head_dim != 0 ? config.head_dim : config.embed_dim / config.heads;
  const KvCacheOptions options(layers, batch, kv_heads, head_dim, context);
  if (config.window == 0 || config.positions == PositionScheme::learned) return options;
  // So that a call of `context` tokens finds a full window before each of them.
  return KvCacheOptions(options).window(config.window).capacity(context + config.window - 1);
}

void initialize(torch::nn::Module& model, const StackConfig& config) {
  switch (config.initialization) {
    case Initialization::gpt2:
      return initialize_gpt2(model, config.layers);
    case Initialization::xavier:
      return initialize_xavier(model);
    case Initialization::bloem:
      return initialize_bloem(model);
  }
  TORCH_CHECK_VALUE(false, "unknown initialization ", static_cast<int>(config.initialization));
}

}  // namespace attend::inline models
