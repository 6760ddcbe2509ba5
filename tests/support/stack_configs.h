#pragma once

#include "attend/models/stack_config.h"

#include <ostream>
#include <string>
#include <vector>

namespace attend {

/// The name and the config of a small stack.
struct NamedStack {
  const char* name;
  StackConfig config;
};

inline std::ostream& operator<<(std::ostream& stream, const NamedStack& stack) {
  return stream << stack.name;
}

/// Returns a stack for each option that affects the computation, and some combinations.
inline std::vector<NamedStack> each_stack() {
  const auto with = [](const char* name, auto change) {
    NamedStack stack{name,
                     {.num_layers = 2, .num_heads = 4, .embed_dim = 16, .dim_feedforward = 8}};
    change(stack.config);
    return stack;
  };
  using C = StackConfig;
  using P = PositionScheme;
  return {
      with("plain", [](C&) {}),
      with("no_layers", [](C& c) { c.num_layers = 0; }),
      with("one_head", [](C& c) { c.num_heads = 1; }),
      with("grouped_query", [](C& c) { c.num_kv_heads = 2; }),
      with("multi_query", [](C& c) { c.num_kv_heads = 1; }),
      with("wide_heads", [](C& c) { c.head_dim = 6; }),
      with("no_bias", [](C& c) { c.bias = false; }),
      with("no_positions", [](C& c) { c.positions = P::none; }),
      with("sinusoidal", [](C& c) { c.positions = P::sinusoidal; }),
      with("rotary", [](C& c) { c.positions = P::rotary; }),
      with("rotary_interleaved_partial",
           [](C& c) {
             c.positions = P::rotary;
             c.rotary.interleaved = true;
             c.rotary.rotary_dim = 2;
           }),
      with("rotary_linear",
           [](C& c) {
             c.positions = P::rotary;
             c.rotary.scaling = RotaryScaling::linear;
             c.rotary.factor = 2;
           }),
      with("rotary_ntk",
           [](C& c) {
             c.positions = P::rotary;
             c.rotary.scaling = RotaryScaling::ntk;
             c.rotary.factor = 2;
           }),
      with("rotary_yarn",
           [](C& c) {
             c.positions = P::rotary;
             c.rotary.scaling = RotaryScaling::yarn;
             c.rotary.factor = 4;
             c.rotary.original_max_seq_len = 8;
           }),
      with("rotary_llama3",
           [](C& c) {
             c.positions = P::rotary;
             c.rotary.scaling = RotaryScaling::llama3;
             c.rotary.factor = 4;
             c.rotary.original_max_seq_len = 8;
           }),
      with("rotary_yarn_options",
           [](C& c) {
             c.positions = P::rotary;
             c.rotary.scaling = RotaryScaling::yarn;
             c.rotary.factor = 4;
             c.rotary.original_max_seq_len = 8;
             c.rotary.beta_fast = 4;
             c.rotary.beta_slow = 0.5;
             c.rotary.truncate = false;
             c.rotary.attention_factor = 1.5;
           }),
      with("rotary_llama3_frequencies",
           [](C& c) {
             c.positions = P::rotary;
             c.rotary.scaling = RotaryScaling::llama3;
             c.rotary.factor = 4;
             c.rotary.original_max_seq_len = 8;
             c.rotary.low_freq_factor = 0.5;
             c.rotary.high_freq_factor = 2;
           }),
      with("alibi", [](C& c) { c.positions = P::alibi; }),
      with("relative", [](C& c) { c.positions = P::relative; }),
      with("relative_near",
           [](C& c) {
             c.positions = P::relative;
             c.relative_bias.num_buckets = 8;
             c.relative_bias.max_distance = 6;
           }),
      with("relative_shared",
           [](C& c) {
             c.positions = P::relative;
             c.relative_attention_shared = true;
           }),
      with("sliding_window", [](C& c) { c.sliding_window = 3; }),
      with("sliding_window_pattern",
           [](C& c) {
             c.sliding_window_pattern = {3, 0};
           }),
      with("sliding_windows",
           [](C& c) {
             c.sliding_window_pattern = {3, 2};
           }),
      with("attention_scale", [](C& c) { c.attention_scale = 0.2; }),
      with("qkv_bias",
           [](C& c) {
             c.bias = false;
             c.qkv_bias = true;
           }),
      with("embedding_scale", [](C& c) { c.embedding_scale = 4; }),
      with("embedding_norm", [](C& c) { c.embedding_norm = true; }),
      with("soft_cap", [](C& c) { c.soft_cap = 2; }),
      with("qk_norm_rms", [](C& c) { c.qk_norm = QKNormKind::rms; }),
      with("qk_norm_l2", [](C& c) { c.qk_norm = QKNormKind::l2; }),
      with("output_gate", [](C& c) { c.output_gate = true; }),
      with("attention_sinks", [](C& c) { c.attention_sinks = true; }),
      with("smeared_keys", [](C& c) { c.smeared_keys = true; }),
      with("value_residual", [](C& c) { c.value_residual = true; }),
      with("rms_norm", [](C& c) { c.norm = NormKind::rms; }),
      with("post_norm", [](C& c) { c.norm_order = NormOrder::post; }),
      with("sandwich_norm", [](C& c) { c.norm_order = NormOrder::sandwich; }),
      with("parallel", [](C& c) { c.norm_order = NormOrder::parallel; }),
      with("parallel_separate_norms",
           [](C& c) { c.norm_order = NormOrder::parallel_separate_norms; }),
      with("no_final_norm", [](C& c) { c.final_norm = false; }),
      with("layer_scale", [](C& c) { c.branch_scale = BranchScale::layer_scale; }),
      with("rezero", [](C& c) { c.branch_scale = BranchScale::rezero; }),
      with("residual_scale", [](C& c) { c.residual_scale = 0.5; }),
      with("relu2", [](C& c) { c.activation = Activation::relu2; }),
      with("swiglu", [](C& c) { c.activation = Activation::swiglu; }),
      with("experts",
           [](C& c) {
             c.num_experts = 4;
             c.num_experts_per_tok = 2;
           }),
      with("gradient_checkpointing", [](C& c) { c.gradient_checkpointing = true; }),
      with("xavier", [](C& c) { c.initialization = Initialization::xavier; }),
      with("bloem", [](C& c) { c.initialization = Initialization::bloem; }),
      with("as_in_llama",
           [](C& c) {
             c.num_kv_heads = 2;
             c.bias = false;
             c.positions = P::rotary;
             c.norm = NormKind::rms;
             c.activation = Activation::swiglu;
           }),
      with("all_together",
           [](C& c) {
             c.num_kv_heads = 2;
             c.positions = P::rotary;
             c.sliding_window = 4;
             c.soft_cap = 3;
             c.qk_norm = QKNormKind::rms;
             c.output_gate = true;
             c.attention_sinks = true;
             c.value_residual = true;
             c.norm = NormKind::rms;
             c.norm_order = NormOrder::sandwich;
             c.activation = Activation::geglu;
           }),
  };
}

/// Name generator for INSTANTIATE_TEST_SUITE_P.
struct NameOfStack {
  template <typename Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};

}  // namespace attend
