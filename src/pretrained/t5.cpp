// T5 (Raffel et al. 2020) and T5 v1.1.
#include "pretrained/architecture.h"

#include <fmt/format.h>

#include <cmath>

namespace attend {
namespace {

ModelConfig read_t5(JsonFields& reader, const std::string& /*class_name*/) {
  Seq2SeqConfig config;
  auto& stack = config.stack;
  config.source_vocab_size = reader.size("vocab_size", 32128);
  config.target_vocab_size = config.source_vocab_size;
  config.max_seq_len = reader.size("n_positions", 512);
  config.tie_embeddings = reader.boolean("tie_word_embeddings", true);
  stack.bias = false;
  stack.norm = NormKind::rms;
  stack.embed_dim = reader.size("d_model", 512);
  stack.head_dim = reader.size("d_kv", 64);
  stack.dim_feedforward = reader.size("d_ff", 2048);
  stack.num_layers = reader.size("num_layers", 6, 1, kMaxCount);
  config.num_decoder_layers = reader.size("num_decoder_layers", stack.num_layers, 1, kMaxCount);
  stack.num_heads = reader.size("num_heads", 8);
  stack.attention_scale = 1.0;
  stack.positions = PositionScheme::relative;
  stack.relative_bias.num_buckets = reader.size("relative_attention_num_buckets", 32, 2);
  stack.relative_bias.max_distance = reader.size("relative_attention_max_distance", 128);
  stack.relative_attention_shared = true;
  stack.norm_eps = reader.number("layer_norm_epsilon", 1e-6);
  stack.activation = reader.choice<Activation>("feed_forward_proj", "relu",
                                               {{"relu", Activation::relu},
                                                {"gelu", Activation::gelu},
                                                {"gated-gelu", Activation::geglu_tanh},
                                                {"gated-silu", Activation::swiglu}});
  if (reader.boolean("scale_decoder_outputs", config.tie_embeddings))
    config.logit_scale = 1.0 / std::sqrt(static_cast<double>(stack.embed_dim));
  reader.ignore({"dropout_rate", "initializer_factor", "dense_act_fn", "is_gated_act"});
  return config;
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
           .read_config = read_t5,
           .weights = t5_weights,
           .ignored = {"encoder.embed_tokens.", "decoder.embed_tokens.",
                       "EncDecAttention.relative_attention_bias"}}};
}

}  // namespace attend
