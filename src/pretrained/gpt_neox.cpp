// GPT-NeoX (Black et al. 2022) and Pythia.
#include "pretrained/architecture.h"

#include <fmt/format.h>

namespace attend {
namespace {

LanguageModelConfig gpt_neox_base() {
  LanguageModelConfig config;
  config.stack.positions = PositionScheme::rotary;
  return config;
}

/// Throws InputError if the file contains an option twice with different values: `value` under the
/// name that it has in GPT-NeoX only, `key`, and another one as `newer_key` of rotary positions.
/// transformers ignores the latter at the top level, and prefers it in `rope_parameters`.
void check_same(JsonFields& reader, const char* key, double value, const char* newer_key) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!reader.has(name)) continue;
    auto object = reader.object(name);
    const auto newer = object.number(newer_key, value);
    if (newer != value && reader.has(key)) {
      reader.throw_unexpected(key,
                              fmt::format("{}, the value of {}", newer, object.path_of(newer_key)));
    }
    value = newer;
  }
  if (reader.number(newer_key, value) != value)
    reader.throw_unexpected(newer_key, fmt::format("{}, as `{}`", value, key));
}

void declare_gpt_neox(ConfigKeys& keys, ModelConfig& any) {
  auto& config = std::get<LanguageModelConfig>(any);
  auto& stack = config.stack;
  keys.size("vocab_size", config.vocab_size, 50432);
  keys.size("max_position_embeddings", config.max_seq_len, 2048);
  keys.boolean("tie_word_embeddings", config.tie_embeddings, false);
  keys.size("hidden_size", stack.embed_dim, 6144);
  keys.size("num_hidden_layers", stack.num_layers, 44, 1, kMaxCount);
  keys.size("num_attention_heads", stack.num_heads, 64);
  keys.size("intermediate_size", stack.dim_feedforward, 24576);
  keys.activation("hidden_act", stack.activation, "gelu", kActivations);
  keys.number("layer_norm_eps", stack.norm_eps, 1e-5);
  bool parallel = stack.norm_order == NormOrder::parallel_separate_norms;
  keys.boolean("use_parallel_residual", parallel, true);
  stack.norm_order = parallel ? NormOrder::parallel_separate_norms : NormOrder::pre;
  double theta = stack.rotary.theta;
  const auto head_dim = stack.embed_dim / stack.num_heads;
  double part = partial_rotary_factor(stack.rotary.rotary_dim, head_dim);
  keys.number("rotary_emb_base", theta, 10000.0);
  keys.number("rotary_pct", part, 0.25);
  if (keys.reads()) {
    check_same(keys.reader(), "rotary_emb_base", theta, "rope_theta");
    check_same(keys.reader(), "rotary_pct", part, "partial_rotary_factor");
  }
  declare_rotary(keys, stack.rotary, head_dim, config.max_seq_len, theta, part);
  keys.require("attention_bias", true);
}

WeightRows gpt_neox_weights(const ModelConfig& any) {
  const auto& config = std::get<LanguageModelConfig>(any);
  const auto& stack = config.stack;
  const auto width = stack.embed_dim;
  WeightRows rows;
  rows.embedding("embedding.token", "embed_in", config.vocab_size, width);
  for (int64_t i = 0; i < stack.num_layers; ++i) {
    const auto block =
        rows.inside(fmt::format("decoder.blocks.{}.", i), fmt::format("layers.{}.", i));
    block.norm("norm1", "input_layernorm", width, true);
    block.linear("attention.qkv", {{"attention.query_key_value", 3 * width}}, width, true,
                 {WeightLayout::per_head_qkv, stack.num_heads});
    block.linear("attention.out", {{"attention.dense", width}}, width, true);
    block.norm("norm2", "post_attention_layernorm", width, true);
    block.linear("feed_forward.up", {{"mlp.dense_h_to_4h", stack.dim_feedforward}}, width, true);
    block.linear("feed_forward.down", {{"mlp.dense_4h_to_h", width}}, stack.dim_feedforward, true);
  }
  rows.norm("decoder.norm", "final_layer_norm", width, true);
  if (!config.tie_embeddings) rows.linear("head", {{"embed_out", config.vocab_size}}, width, false);
  return rows;
}

}  // namespace

std::vector<Architecture> gpt_neox_architectures() {
  return {{.model_type = "gpt_neox",
           .classes = {"GPTNeoXForCausalLM"},
           .prefix = "gpt_neox.",
           .head = "embed_out.",
           .base = gpt_neox_base(),
           .declare = declare_gpt_neox,
           .weights = gpt_neox_weights,
           .ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"}}};
}

}  // namespace attend
