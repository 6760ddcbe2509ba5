#include "random_forwards/draw_config.h"

namespace attend {
namespace {

void draw_sizes(StackConfig& c) {
  c.num_layers = draw_one_of({0, 1, 2, 2, 3});
  const int64_t group_size = draw(1, 3);
  const int64_t num_kv_heads = draw(1, 2);
  c.num_heads = group_size * num_kv_heads;
  if (group_size > 1 || draw_chance(30)) c.num_kv_heads = num_kv_heads;
  const int64_t head_dim = 2 * draw(1, 4);
  c.embed_dim = c.num_heads * head_dim;
  if (draw_chance(30)) c.head_dim = 2 * draw(1, 4);
}

void draw_positions(StackConfig& c) {
  c.positions = draw_enum<PositionScheme>();
  if (c.positions == PositionScheme::rotary) {
    const int64_t head_dim = c.head_dim != 0 ? c.head_dim : c.embed_dim / c.num_heads;
    c.rotary.theta = draw_one_of({1e4, 1e4, 100.0});
    if (draw_chance(30)) c.rotary.rotary_dim = 2 * draw(1, head_dim / 2);
    c.rotary.interleaved = draw_chance(30);
    c.rotary.scaling = draw_enum<RotaryScaling>();
    if (c.rotary.scaling != RotaryScaling::none) c.rotary.factor = draw_one_of({1.5, 4.0});
    if (c.rotary.scaling == RotaryScaling::yarn || c.rotary.scaling == RotaryScaling::llama3) {
      c.rotary.original_max_seq_len = draw_one_of({4, 32});
    }
    if (c.rotary.scaling == RotaryScaling::yarn) {
      c.rotary.beta_fast = draw_one_of({32.0, 3.0});
      c.rotary.beta_slow = draw_one_of({1.0, 0.3});
      c.rotary.truncate = draw_chance(50);
      c.rotary.attention_factor = draw_one_of({0.0, 1.5});
    }
    if (c.rotary.scaling == RotaryScaling::llama3) {
      c.rotary.low_freq_factor = draw_one_of({1.0, 0.3});
      c.rotary.high_freq_factor = draw_one_of({4.0, 1.5});
    }
  }
  if (c.positions == PositionScheme::relative) {
    if (draw_chance(50)) {
      c.relative_bias.num_buckets = 2 * draw(2, 4);
      c.relative_bias.max_distance = draw(5, 9);
    }
    c.relative_attention_shared = draw_chance(50);
  }
}

void draw_attention(StackConfig& c) {
  if (draw_chance(30)) {
    c.sliding_window = draw(1, 5);
  } else if (c.num_layers > 1 && draw_chance(30)) {
    c.sliding_window_pattern = {draw(1, 5), draw(0, 5)};
  }
  if (draw_chance(20)) c.attention_scale = draw_one_of({0.1, 1.0});
  if (draw_chance(30)) c.soft_cap = draw_one_of({0.5, 3.0});
  c.qk_norm = draw_enum<QKNormKind>();
  c.output_gate = draw_chance(30);
  c.attention_sinks = draw_chance(30);
  c.value_residual = draw_chance(30);
  c.smeared_keys = draw_chance(30);
}

void draw_feed_forward(StackConfig& c) {
  if (draw_chance(50)) c.dim_feedforward = draw(1, 12);
  c.activation = draw_enum<Activation>();
  if (draw_chance(25)) {
    c.num_experts = draw(1, 4);
    c.num_experts_per_tok = draw(1, c.num_experts);
    c.norm_topk_prob = draw_chance(50);
  }
}

void draw_residual(StackConfig& c) {
  c.norm = draw_enum<NormKind>();
  c.norm_eps = draw_one_of({1e-5, 1e-5, 1e-2});
  c.norm_order = draw_enum<NormOrder>();
  c.final_norm = draw_chance(80);
  if (draw_chance(20)) {
    c.residual_scale = 0.5;
  } else {
    c.branch_scale = draw_enum<BranchScale>();
  }
}

}  // namespace

StackConfig draw_stack_config() {
  StackConfig c;
  c.bias = draw_chance(60);
  c.qkv_bias = draw_chance(30);
  c.embedding_scale = draw_one_of({1.0, 1.0, 3.0});
  c.embedding_norm = draw_chance(30);
  c.initialization = draw_enum<Initialization>();
  draw_sizes(c);
  draw_positions(c);
  draw_attention(c);
  draw_feed_forward(c);
  draw_residual(c);
  return c;
}

ModelConfig draw_model_config() {
  const auto stack = draw_stack_config();
  switch (draw(0, 2)) {
    case 0:
      return LanguageModelConfig{.vocab_size = draw(2, 9),
                                 .max_seq_len = 16,
                                 .tie_embeddings = draw_chance(50),
                                 .logit_scale = draw_one_of({1.0, 0.5}),
                                 .final_logit_soft_cap = draw_one_of({0.0, 3.0}),
                                 .stack = stack};
    case 1: {
      const bool masked_lm = draw_chance(20);  // without the other heads
      return SequenceClassifierConfig{.vocab_size = draw(2, 9),
                                      .num_classes = masked_lm ? 0 : draw(0, 3),
                                      .max_seq_len = 16,
                                      .type_vocab_size = draw(0, 3),
                                      .pooling = draw_enum<Pooling>(),
                                      .pooler = !masked_lm && draw_chance(30),
                                      .normalize = draw_chance(30),
                                      .masked_lm = masked_lm,
                                      .stack = stack};
    }
    default:
      return Seq2SeqConfig{.source_vocab_size = draw(2, 9),
                           .target_vocab_size = draw(2, 9),
                           .max_seq_len = 16,
                           .num_decoder_layers = draw(-1, 2),
                           .tie_embeddings = draw_chance(50),
                           .logit_scale = draw_one_of({1.0, 0.5}),
                           .final_logit_soft_cap = draw_one_of({0.0, 3.0}),
                           .stack = stack};
  }
}

}  // namespace attend
