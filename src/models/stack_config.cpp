#include "attend/models/stack_config.h"

#include "attend/nn/alibi.h"
#include "attend/nn/attention_sinks.h"
#include "attend/nn/branch_scale.h"
#include "attend/nn/initialization.h"
#include "attend/nn/output_gate.h"
#include "attend/nn/qk_norm.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/rotary.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/smeared_keys.h"
#include "attend/nn/soft_cap.h"
#include "attend/nn/value_residual.h"
#include "models/rolling_window.h"
#include "nn/checks.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <variant>

namespace attend {
namespace {

RotaryOptions rotary_options(const StackConfig& config) {
  return {.theta = config.rotary_theta,
          .rotary_dim = config.rotary_dim,
          .interleaved = config.rotary_interleaved,
          .scaling = config.rotary_scaling,
          .factor = config.rotary_factor,
          .original_max_seq_len = config.rotary_original_max_seq_len,
          .beta_fast = config.rotary_beta_fast,
          .beta_slow = config.rotary_beta_slow,
          .truncate = config.rotary_truncate,
          .attention_factor = config.rotary_attention_factor,
          .low_freq_factor = config.rotary_low_freq_factor,
          .high_freq_factor = config.rotary_high_freq_factor};
}

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
  return {.num_buckets = config.relative_attention_num_buckets,
          .max_distance = config.relative_attention_max_distance,
          .bidirectional = !causal};
}

MultiheadAttentionOptions self_attention_options(const StackConfig& config, bool causal) {
  auto options = attention_options(config);
  if (config.smeared_keys) options.add(smeared_keys());
  if (config.value_residual) options.add(value_residual());
  if (config.positions == PositionScheme::rotary) options.add(rotary(rotary_options(config)));
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

/// A config field that has an effect only if another field has a certain value.
struct DependentField {
  const char* name;
  std::variant<int64_t StackConfig::*, double StackConfig::*, bool StackConfig::*,
               RotaryScaling StackConfig::*>
      member;
};

/// Throws c10::ValueError if the `fields` have no effect and one of them differs from its default.
/// `required`: the condition under which the fields have an effect, as text for the message.
/// `is_set`: true if `config` fulfils this condition.
void check_dependent_fields(const char* required, bool is_set, const StackConfig& config,
                            std::initializer_list<DependentField> fields) {
  if (is_set) return;
  for (const auto& field : fields) {
    const bool is_default = std::visit(
        [&](auto member) { return config.*member == StackConfig().*member; }, field.member);
    TORCH_CHECK_VALUE(is_default, field.name, " is set but has no effect unless ", required);
  }
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
  check_dependent_fields(
      "positions is rotary", config.positions == PositionScheme::rotary, config,
      {{"rotary_theta", &StackConfig::rotary_theta},
       {"rotary_dim", &StackConfig::rotary_dim},
       {"rotary_factor", &StackConfig::rotary_factor},
       {"rotary_original_max_seq_len", &StackConfig::rotary_original_max_seq_len},
       {"rotary_interleaved", &StackConfig::rotary_interleaved},
       {"rotary_scaling", &StackConfig::rotary_scaling}});
  const auto scaling = config.rotary_scaling;
  const bool yarn = scaling == RotaryScaling::yarn;
  const bool llama3 = scaling == RotaryScaling::llama3;
  check_dependent_fields("rotary_scaling is yarn", yarn, config,
                         {{"rotary_beta_fast", &StackConfig::rotary_beta_fast},
                          {"rotary_beta_slow", &StackConfig::rotary_beta_slow},
                          {"rotary_truncate", &StackConfig::rotary_truncate},
                          {"rotary_attention_factor", &StackConfig::rotary_attention_factor}});
  check_dependent_fields("rotary_scaling is llama3", llama3, config,
                         {{"rotary_low_freq_factor", &StackConfig::rotary_low_freq_factor},
                          {"rotary_high_freq_factor", &StackConfig::rotary_high_freq_factor}});
  check_dependent_fields(
      "rotary_scaling is yarn or llama3", yarn || llama3, config,
      {{"rotary_original_max_seq_len", &StackConfig::rotary_original_max_seq_len}});
  check_dependent_fields(
      "positions is relative", config.positions == PositionScheme::relative, config,
      {{"relative_attention_num_buckets", &StackConfig::relative_attention_num_buckets},
       {"relative_attention_max_distance", &StackConfig::relative_attention_max_distance},
       {"relative_attention_shared", &StackConfig::relative_attention_shared}});
  check_dependent_fields("num_experts is positive", config.num_experts > 0, config,
                         {{"num_experts_per_tok", &StackConfig::num_experts_per_tok},
                          {"norm_topk_prob", &StackConfig::norm_topk_prob}});
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
