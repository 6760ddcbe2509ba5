#include "attend/models/stack_config.h"

#include "attend/nn/alibi.h"
#include "attend/nn/attention_sinks.h"
#include "attend/nn/branch_scale.h"
#include "attend/nn/initialization.h"
#include "attend/nn/output_gate.h"
#include "attend/nn/qk_norm.h"
#include "attend/nn/rotary.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/smeared_keys.h"
#include "attend/nn/soft_cap.h"
#include "attend/nn/value_residual.h"
#include "models/rolling_window.h"
#include "nn/checks.h"
#include "nn/new_layers.h"

#include <cmath>
#include <limits>

namespace attend {
namespace {

int64_t num_kv_heads(const StackConfig& config) {
  return config.num_kv_heads != 0 ? config.num_kv_heads : config.num_heads;
}

/// Options shared by self-attention and cross-attention.
MultiheadAttentionOptions attention_options(const StackConfig& config) {
  auto options = MultiheadAttentionOptions(config.embed_dim, config.num_heads)
                     .bias(config.bias)
                     .qkv_bias(config.qkv_bias)
                     .dropout(config.dropout);
  if (config.attention_scale != 0) options.scale(config.attention_scale);
  if (config.num_kv_heads != 0) options.num_kv_heads(config.num_kv_heads);
  if (config.head_dim != 0) options.head_dim(config.head_dim);
  if (config.qk_norm == QKNormKind::rms) options.add(qk_norm(rms_norm(config.norm_eps)));
  if (config.qk_norm == QKNormKind::l2) options.add(qk_norm(l2_norm()));
  if (config.soft_cap > 0) options.add(soft_cap(config.soft_cap));
  if (config.attention_sinks) options.add(attention_sinks());
  if (config.output_gate) options.add(output_gate());
  return options;
}

RelativeBiasOptions relative_bias_options(const StackConfig& config, bool causal) {
  auto options = config.relative_bias;
  options.bidirectional = !causal;
  return options;
}

MultiheadAttentionOptions self_attention_options(const StackConfig& config, bool causal) {
  auto options = attention_options(config);
  if (config.smeared_keys) options.add(smeared_keys());
  if (config.value_residual) options.add(value_residual());
  if (config.positions == PositionScheme::rotary) options.add(rotary(config.rotary));
  if (config.positions == PositionScheme::alibi) options.add(alibi());
  if (config.positions == PositionScheme::relative && !config.relative_attention_shared) {
    options.add(relative_bias(relative_bias_options(config, causal)));
  }
  if (config.sliding_window > 0) options.add(sliding_window(config.sliding_window));
  return options;
}

/// Adds hooks to `options`, the self-attention options of layer `layer`. Only hooks that differ
/// between layers are added.
void add_layer_hooks(const StackConfig& config, bool causal, int64_t layer,
                     MultiheadAttentionOptions& options) {
  if (config.relative_attention_shared) {
    const auto bias = relative_bias_options(config, causal);
    options.add(layer == 0 ? relative_bias(bias) : shared_relative_bias(bias));
  }
  const auto& windows = config.sliding_window_pattern;
  if (windows.empty()) return;
  const auto window = windows[static_cast<std::size_t>(layer) % windows.size()];
  if (window > 0) options.add(sliding_window(window));
}

FeedForwardOptions feed_forward_options(const StackConfig& config) {
  auto options = FeedForwardOptions(config.embed_dim)
                     .bias(config.bias)
                     .activation(config.activation)
                     .dropout(config.dropout);
  if (config.dim_feedforward != 0) options.dim_feedforward(config.dim_feedforward);
  return options;
}

std::optional<ExpertsOptions> experts_options(const StackConfig& config) {
  if (config.num_experts == 0) return std::nullopt;
  return ExpertsOptions(config.num_experts)
      .num_experts_per_tok(config.num_experts_per_tok)
      .norm_topk_prob(config.norm_topk_prob);
}

ModuleFactory make_branch_scale(const StackConfig& config) {
  switch (config.branch_scale) {
    case BranchScale::none:
      return config.residual_scale == 1.0 ? ModuleFactory() : constant_scale(config.residual_scale);
    case BranchScale::layer_scale:
      return layer_scale();
    case BranchScale::rezero:
      return rezero();
  }
  TORCH_CHECK_VALUE(false, "unknown branch_scale ", static_cast<int>(config.branch_scale));
}

ModuleFactory norm(const StackConfig& config) {
  return config.norm == NormKind::rms ? rms_norm(config.norm_eps)
                                      : layer_norm(config.norm_eps, config.bias);
}

ResidualOptions residual_options(const StackConfig& config) {
  TORCH_CHECK_VALUE(config.residual_scale == 1.0 || config.branch_scale == BranchScale::none,
                    "residual_scale (", config.residual_scale, ") must be 1 with branch_scale ",
                    to_string(config.branch_scale));
  return ResidualOptions()
      .norm(norm(config))
      .norm_order(config.norm_order)
      .branch_scale(make_branch_scale(config))
      .dropout(config.dropout)
      .stochastic_depth(config.stochastic_depth);
}

/// Throws c10::ValueError if the field `name` has no effect and differs from its default.
/// `required`: the condition under which it has an effect, as text for the message. `is_set`: true
/// if the config fulfils this condition.
template <typename T>
void check_dependent(const char* required, bool is_set, const char* name, const T& value,
                     const T& default_value) {
  TORCH_CHECK_VALUE(is_set || value == default_value, name, " is set but has no effect unless ",
                    required);
}

void check_rotary(const RotaryOptions& rotary) {
  const bool yarn = rotary.scaling == RotaryScaling::yarn;
  const bool llama3 = rotary.scaling == RotaryScaling::llama3;
  const auto check = [&](const char* required, bool is_set, const char* name, auto member) {
    check_dependent(required, is_set, name, rotary.*member, RotaryOptions().*member);
  };
  const char* in_yarn = "rotary_scaling is yarn";
  check(in_yarn, yarn, "rotary_beta_fast", &RotaryOptions::beta_fast);
  check(in_yarn, yarn, "rotary_beta_slow", &RotaryOptions::beta_slow);
  check(in_yarn, yarn, "rotary_truncate", &RotaryOptions::truncate);
  check(in_yarn, yarn, "rotary_attention_factor", &RotaryOptions::attention_factor);
  const char* in_llama3 = "rotary_scaling is llama3";
  check(in_llama3, llama3, "rotary_low_freq_factor", &RotaryOptions::low_freq_factor);
  check(in_llama3, llama3, "rotary_high_freq_factor", &RotaryOptions::high_freq_factor);
  check("rotary_scaling is yarn or llama3", yarn || llama3, "rotary_original_max_seq_len",
        &RotaryOptions::original_max_seq_len);
}

void check_windows(const StackConfig& config) {
  check_not_negative("sliding_window", config.sliding_window);
  const auto& windows = config.sliding_window_pattern;
  for (const auto window : windows) check_not_negative("sliding_window_pattern", window);
  TORCH_CHECK_VALUE(
      windows.empty() || config.sliding_window == 0, "sliding_window (", config.sliding_window,
      ") must be 0 with a sliding_window_pattern, which sets the windows of all layers");
}

void check_config(const StackConfig& config) {
  check_not_negative("num_layers", config.num_layers);
  check_not_negative("num_kv_heads", config.num_kv_heads);
  check_not_negative("head_dim", config.head_dim);
  check_heads(config.embed_dim, config.num_heads, num_kv_heads(config), config.head_dim != 0);
  check_not_negative("dim_feedforward", config.dim_feedforward);
  check_not_negative("num_experts", config.num_experts);
  check_not_negative("soft_cap", config.soft_cap);
  check_windows(config);
  TORCH_CHECK_VALUE(std::isfinite(config.attention_scale) && config.attention_scale >= 0,
                    "attention_scale (", config.attention_scale,
                    ") must be positive and finite, or 0 for 1/sqrt(head_dim)");
  const StackConfig defaults;
  check_dependent("positions is rotary", config.positions == PositionScheme::rotary, "rotary_*",
                  config.rotary, defaults.rotary);
  check_rotary(config.rotary);
  const bool relative = config.positions == PositionScheme::relative;
  const char* in_relative = "positions is relative";
  check_dependent(in_relative, relative, "relative_attention_*", config.relative_bias,
                  defaults.relative_bias);
  check_dependent(in_relative, relative, "relative_attention_shared",
                  config.relative_attention_shared, false);
  const char* in_experts = "num_experts is positive";
  check_dependent(in_experts, config.num_experts > 0, "num_experts_per_tok",
                  config.num_experts_per_tok, defaults.num_experts_per_tok);
  check_dependent(in_experts, config.num_experts > 0, "norm_topk_prob", config.norm_topk_prob,
                  defaults.norm_topk_prob);
}

}  // namespace

TransformerEncoderOptions encoder_options(const StackConfig& config, bool causal) {
  check_config(config);
  auto block = TransformerBlockOptions(config.embed_dim, config.num_heads)
                   .attention(self_attention_options(config, causal))
                   .feed_forward(feed_forward_options(config))
                   .residual(residual_options(config))
                   .experts(experts_options(config));
  return TransformerEncoderOptions(block, config.num_layers)
      .per_layer([=](int64_t layer, TransformerBlockOptions& options) {
        add_layer_hooks(config, causal, layer, options.attention());
      })
      .final_norm(config.final_norm)
      .gradient_checkpointing(config.gradient_checkpointing);
}

TransformerDecoderOptions decoder_options(const StackConfig& config, int64_t num_layers) {
  check_config(config);
  auto block = DecoderBlockOptions(config.embed_dim, config.num_heads)
                   .attention(self_attention_options(config, /*causal=*/true))
                   .cross_attention(attention_options(config))
                   .feed_forward(feed_forward_options(config))
                   .residual(residual_options(config))
                   .experts(experts_options(config));
  return TransformerDecoderOptions(block, num_layers)
      .per_layer([=](int64_t layer, DecoderBlockOptions& options) {
        add_layer_hooks(config, /*causal=*/true, layer, options.attention());
      })
      .final_norm(config.final_norm)
      .gradient_checkpointing(config.gradient_checkpointing);
}

TokenEmbeddingOptions embedding_options(const StackConfig& config, int64_t vocab_size,
                                        int64_t max_seq_len) {
  auto options = TokenEmbeddingOptions(vocab_size, config.embed_dim, max_seq_len)
                     .embedding_scale(config.embedding_scale)
                     .dropout(config.dropout);
  if (config.embedding_norm) options.embedding_norm(norm(config));
  if (config.positions == PositionScheme::learned)
    return options.positions(PositionEmbedding::learned);
  if (config.positions == PositionScheme::sinusoidal) {
    return options.positions(PositionEmbedding::sinusoidal);
  }
  return options.positions(PositionEmbedding::none);
}

KvCacheOptions cache_options(const StackConfig& config, int64_t num_layers, int64_t batch_size,
                             int64_t max_seq_len) {
  const int64_t head_dim =
      config.head_dim != 0 ? config.head_dim : config.embed_dim / config.num_heads;
  auto options = KvCacheOptions()
                     .num_layers(num_layers)
                     .batch_size(batch_size)
                     .num_kv_heads(num_kv_heads(config))
                     .head_dim(head_dim)
                     .max_seq_len(max_seq_len);
  const auto window = rolling_window(config, max_seq_len);
  if (window == 0) return options;
  constexpr auto kMax = std::numeric_limits<int64_t>::max() / 4;
  TORCH_CHECK_VALUE(max_seq_len <= kMax, "max_seq_len (", max_seq_len, ") must be at most ", kMax);
  // A query attends to `window` keys; with smeared keys, it also needs the key before them.
  const auto sliding_window = window + (config.smeared_keys ? 1 : 0);
  // A call with max_seq_len tokens also needs the sliding_window - 1 tokens before its first token.
  return options.sliding_window(sliding_window).max_seq_len(max_seq_len + sliding_window - 1);
}

void initialize(ModuleRef model, const StackConfig& config) {
  if (UninitializedWeights::dtype()) return;
  switch (config.initialization) {
    case Initialization::gpt2:
      return initialize_gpt2(model, config.num_layers);
    case Initialization::xavier:
      return initialize_xavier(model);
    case Initialization::bloem:
      return initialize_bloem(model);
  }
  TORCH_CHECK_VALUE(false, "unknown initialization ", static_cast<int>(config.initialization));
}

}  // namespace attend
