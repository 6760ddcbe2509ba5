// GPT-NeoX (Black et al. 2022) and Pythia.
#include "pretrained/architecture.h"

#include <fmt/format.h>

namespace attend {
namespace {

ModelConfig read_gpt_neox(JsonFields& reader, const std::string& /*class_name*/) {
  LanguageModelConfig config;
  auto& stack = config.stack;
  config.vocab_size = reader.size("vocab_size", 50432);
  config.max_seq_len = reader.size("max_position_embeddings", 2048);
  config.tie_embeddings = reader.boolean("tie_word_embeddings", false);
  stack.embed_dim = reader.size("hidden_size", 6144);
  stack.num_layers = reader.size("num_hidden_layers", 44, 1, kMaxCount);
  stack.num_heads = reader.size("num_attention_heads", 64);
  stack.dim_feedforward = reader.size("intermediate_size", 24576);
  stack.activation = reader.choice<Activation>("hidden_act", "gelu", kActivations);
  stack.norm_eps = reader.number("layer_norm_eps", 1e-5);
  stack.norm_order = reader.boolean("use_parallel_residual", true)
                         ? NormOrder::parallel_separate_norms
                         : NormOrder::pre;
  stack.positions = PositionScheme::rotary;
  const auto theta = reader.number("rotary_emb_base", 10000.0);
  const auto part = reader.number("rotary_pct", 0.25);
  stack.rotary = read_rotary(reader, stack.embed_dim / stack.num_heads, theta, part);
  reader.require("attention_bias", true);
  return config;
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
           .classes = {"GPTNeoXForCausalLM", "GPTNeoXModel"},
           .prefix = "gpt_neox.",
           .read_config = read_gpt_neox,
           .weights = gpt_neox_weights,
           .ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"}}};
}

}  // namespace attend
