// GPT-2 (Radford et al. 2019).
#include "pretrained/architecture.h"

#include <fmt/format.h>

namespace attend {
namespace {

ModelConfig read_gpt2(JsonFields& reader, const std::string& /*class_name*/) {
  LanguageModelConfig config;
  auto& stack = config.stack;
  config.vocab_size = reader.size("vocab_size", 50257);
  config.max_seq_len = reader.size("n_positions", 1024);
  config.tie_embeddings = reader.boolean("tie_word_embeddings", true);
  stack.embed_dim = reader.size("n_embd", 768);
  stack.num_layers = reader.size("n_layer", 12, 1, kMaxCount);
  stack.num_heads = reader.size("n_head", 12);
  stack.dim_feedforward = reader.size("n_inner", 4 * stack.embed_dim);
  stack.activation = reader.choice<Activation>("activation_function", "gelu_new", kActivations);
  stack.norm_eps = reader.number("layer_norm_epsilon", 1e-5);
  reader.require("scale_attn_weights", true);
  reader.require("scale_attn_by_inverse_layer_idx", false);
  reader.ignore({"n_ctx", "resid_pdrop", "embd_pdrop", "attn_pdrop", "reorder_and_upcast_attn",
                 "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
                 "summary_first_dropout"});
  return config;
}

WeightRows gpt2_weights(const ModelConfig& any) {
  const auto& config = std::get<LanguageModelConfig>(any);
  const auto width = config.stack.embed_dim;
  const auto hidden = config.stack.dim_feedforward;
  const WeightLayout conv1d{WeightLayout::transposed};
  WeightRows rows;
  rows.embedding("embedding.token", "wte", config.vocab_size, width);
  rows.embedding("embedding.position", "wpe", config.max_seq_len, width);
  for (int64_t i = 0; i < config.stack.num_layers; ++i) {
    const auto block = rows.inside(fmt::format("decoder.blocks.{}.", i), fmt::format("h.{}.", i));
    block.norm("norm1", "ln_1", width, true);
    block.linear("attention.qkv", {{"attn.c_attn", 3 * width}}, width, true, conv1d);
    block.linear("attention.out", {{"attn.c_proj", width}}, width, true, conv1d);
    block.norm("norm2", "ln_2", width, true);
    block.linear("feed_forward.up", {{"mlp.c_fc", hidden}}, width, true, conv1d);
    block.linear("feed_forward.down", {{"mlp.c_proj", width}}, hidden, true, conv1d);
  }
  rows.norm("decoder.norm", "ln_f", width, true);
  if (!config.tie_embeddings) rows.linear("head", {{"lm_head", config.vocab_size}}, width, false);
  return rows;
}

}  // namespace

std::vector<Architecture> gpt2_architectures() {
  return {{.model_type = "gpt2",
           .classes = {"GPT2LMHeadModel", "GPT2Model"},
           .prefix = "transformer.",
           .read_config = read_gpt2,
           .weights = gpt2_weights,
           .ignored = {".attn.bias", ".attn.masked_bias"}}};
}

}  // namespace attend
