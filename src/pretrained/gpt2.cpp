// GPT-2 (Radford et al. 2019).
#include "pretrained/architecture.h"

#include <fmt/format.h>

namespace attend {
namespace {

void declare_gpt2(ConfigKeys& keys, ModelConfig& any) {
  auto& config = std::get<LanguageModelConfig>(any);
  auto& stack = config.stack;
  keys.size("vocab_size", config.vocab_size, 50257);
  keys.size("n_positions", config.max_seq_len, 1024);
  keys.boolean("tie_word_embeddings", config.tie_embeddings, true);
  keys.size("n_embd", stack.embed_dim, 768);
  keys.size("n_layer", stack.num_layers, 12, 1, kMaxCount);
  keys.size("n_head", stack.num_heads, 12);
  keys.size("n_inner", stack.dim_feedforward, 4 * stack.embed_dim);
  keys.activation("activation_function", stack.activation, "gelu_new", kActivations);
  keys.number("layer_norm_epsilon", stack.norm_eps, 1e-5);
  keys.require("scale_attn_weights", true);
  keys.require("scale_attn_by_inverse_layer_idx", false);
  keys.ignore({"n_ctx", "resid_pdrop", "embd_pdrop", "attn_pdrop", "reorder_and_upcast_attn",
               "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
               "summary_first_dropout"});
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
           .head = "lm_head.",
           .base = LanguageModelConfig(),
           .declare = declare_gpt2,
           .weights = gpt2_weights,
           .ignored = {".attn.bias", ".attn.masked_bias"}}};
}

}  // namespace attend
