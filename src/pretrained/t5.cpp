// T5 (Raffel et al. 2020) and T5 v1.1.
#include "pretrained/architecture.h"

#include <fmt/format.h>

#include <cmath>

namespace attend {
namespace {

/// Relative positions have no limit; longer texts would need terabytes of scores.
constexpr int64_t kMaxTokens = int64_t{1} << 20;

Seq2SeqConfig t5_base() {
  Seq2SeqConfig config;
  config.max_seq_len = kMaxTokens;
  auto& stack = config.stack;
  stack.bias = false;
  stack.norm = NormKind::rms;
  stack.attention_scale = 1.0;
  stack.positions = PositionScheme::relative;
  stack.relative_attention_shared = true;
  return config;
}

void declare_t5(ConfigKeys& keys, ModelConfig& any) {
  auto& config = std::get<Seq2SeqConfig>(any);
  auto& stack = config.stack;
  keys.size("vocab_size", config.source_vocab_size, 32128);
  config.target_vocab_size = config.source_vocab_size;
  keys.ignore({"n_positions"});  // transformers ignores it, too
  keys.boolean("tie_word_embeddings", config.tie_embeddings, true);
  keys.size("d_model", stack.embed_dim, 512);
  keys.size("d_kv", stack.head_dim, 64);
  keys.size("d_ff", stack.dim_feedforward, 2048);
  keys.size("num_layers", stack.num_layers, 6, 1, kMaxCount);
  keys.size("num_decoder_layers", config.num_decoder_layers, stack.num_layers, 1, kMaxCount);
  keys.size("num_heads", stack.num_heads, 8);
  keys.size("relative_attention_num_buckets", stack.relative_bias.num_buckets, 32, 2);
  keys.size("relative_attention_max_distance", stack.relative_bias.max_distance, 128);
  keys.number("layer_norm_epsilon", stack.norm_eps, 1e-6);
  constexpr std::array<std::pair<std::string_view, Activation>, 4> kFeedForwards{
      {{"relu", Activation::relu},
       {"gelu", Activation::gelu},
       {"gated-gelu", Activation::geglu_tanh},
       {"gated-silu", Activation::swiglu}}};
  keys.activation("feed_forward_proj", stack.activation, "relu", kFeedForwards);
  bool scaled = config.logit_scale != 1.0;
  keys.boolean("scale_decoder_outputs", scaled, config.tie_embeddings);
  config.logit_scale = scaled ? 1.0 / std::sqrt(static_cast<double>(stack.embed_dim)) : 1.0;
  keys.ignore({"dropout_rate", "initializer_factor", "dense_act_fn", "is_gated_act"});
}

/// The names of an attention in a file, in the layer `theirs` of a block.
void add_attention(const WeightRows& block, const StackConfig& stack, const char* ours,
                   const char* norm, const std::string& theirs) {
  const auto width = stack.embed_dim;
  const auto inner = stack.num_heads * stack.head_dim;
  const auto layer = block.inside("", theirs);
  layer.linear(fmt::format("{}.qkv", ours), {{".q", inner}, {".k", inner}, {".v", inner}}, width,
               false);
  layer.linear(fmt::format("{}.out", ours), {{".o", width}}, inner, false);
  const auto place = theirs.substr(0, theirs.find('.') + 1);
  block.norm(norm, place + "layer_norm", width, false);
}

void add_feed_forward(const WeightRows& block, const StackConfig& stack,
                      const std::string& theirs) {
  const auto hidden = stack.dim_feedforward;
  const auto layer = block.inside("", theirs);
  if (is_gated(std::get<Activation>(stack.activation))) {
    layer.linear("feed_forward.up",
                 {{"DenseReluDense.wi_0", hidden}, {"DenseReluDense.wi_1", hidden}},
                 stack.embed_dim, false);
  } else {
    layer.linear("feed_forward.up", {{"DenseReluDense.wi", hidden}}, stack.embed_dim, false);
  }
  layer.linear("feed_forward.down", {{"DenseReluDense.wo", stack.embed_dim}}, hidden, false);
  layer.norm("norm2", "layer_norm", stack.embed_dim, false);
}

WeightRows t5_weights(const ModelConfig& any) {
  const auto& config = std::get<Seq2SeqConfig>(any);
  const auto& stack = config.stack;
  WeightRows rows;
  for (const char* embedding : {"source_embedding.token", "target_embedding.token"})
    rows.embedding(embedding, "shared", config.source_vocab_size, stack.embed_dim);
  for (const bool is_decoder : {false, true}) {
    const auto name = std::string(is_decoder ? "decoder" : "encoder");
    const auto layers = is_decoder ? config.num_decoder_layers : stack.num_layers;
    for (int64_t i = 0; i < layers; ++i) {
      const auto block = rows.inside(fmt::format("transformer.{}.blocks.{}.", name, i),
                                     fmt::format("{}.block.{}.layer.", name, i));
      add_attention(block, stack, "attention", "norm1", "0.SelfAttention");
      if (i == 0) {  // shared by all blocks
        block.embedding("attention.relative_bias.bias", "0.SelfAttention.relative_attention_bias",
                        stack.relative_bias.num_buckets, stack.num_heads);
      }
      if (is_decoder)
        add_attention(block, stack, "cross_attention", "norm_cross", "1.EncDecAttention");
      add_feed_forward(block, stack, is_decoder ? "2." : "1.");
    }
    rows.norm(fmt::format("transformer.{}.norm", name), name + ".final_layer_norm", stack.embed_dim,
              false);
  }
  if (!config.tie_embeddings)
    rows.linear("head", {{"lm_head", config.target_vocab_size}}, stack.embed_dim, false);
  return rows;
}

}  // namespace

std::vector<Architecture> t5_architectures() {
  return {{.model_type = "t5",
           .classes = {"T5ForConditionalGeneration", "T5WithLMHeadModel"},
           .prefix = "",
           .head = "lm_head.",
           .base = t5_base(),
           .declare = declare_t5,
           .weights = t5_weights,
           .ignored = {"encoder.embed_tokens.", "decoder.embed_tokens.",
                       "EncDecAttention.relative_attention_bias"}}};
}

}  // namespace attend
