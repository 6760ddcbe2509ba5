// Llama (Touvron et al. 2023, Grattafiori et al. 2024), and models that differ from it by few
// options: Mistral, Mixtral, Qwen2, Qwen3 and Gemma 2.
#include "pretrained/architecture.h"

#include <fmt/format.h>

#include <cmath>

namespace attend {
namespace {

/// Default values of the published class.
struct Defaults {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  ///< 0 = num_attention_heads
  int64_t head_dim = 0;             ///< 0 = hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = false;
};

/// Reads the keys that all of these models have, except their activation.
LanguageModelConfig read_common(JsonFields& reader, const Defaults& defaults) {
  LanguageModelConfig config;
  auto& stack = config.stack;
  config.vocab_size = reader.size("vocab_size", defaults.vocab_size);
  config.max_seq_len = reader.size("max_position_embeddings", defaults.max_position_embeddings);
  config.tie_embeddings = reader.boolean("tie_word_embeddings", defaults.tie_word_embeddings);
  stack.bias = false;
  stack.norm = NormKind::rms;
  stack.embed_dim = reader.size("hidden_size", defaults.hidden_size);
  stack.num_layers = reader.size("num_hidden_layers", defaults.num_hidden_layers, 1, kMaxCount);
  stack.num_heads = reader.size("num_attention_heads", defaults.num_attention_heads);
  stack.num_kv_heads = reader.size("num_key_value_heads", defaults.num_key_value_heads == 0
                                                              ? stack.num_heads
                                                              : defaults.num_key_value_heads);
  stack.head_dim = reader.size(
      "head_dim", defaults.head_dim == 0 ? stack.embed_dim / stack.num_heads : defaults.head_dim);
  stack.dim_feedforward = reader.size("intermediate_size", defaults.intermediate_size);
  stack.norm_eps = reader.number("rms_norm_eps", defaults.rms_norm_eps);
  stack.positions = PositionScheme::rotary;
  stack.rotary = read_rotary(reader, stack.head_dim, defaults.rope_theta);
  reader.require("attention_bias", false);
  reader.require("mlp_bias", false);
  return config;
}

/// Reads the activation of a gated feed-forward layer.
Activation read_gated_activation(JsonFields& reader, const char* key, const char* otherwise) {
  return reader.choice<Activation>(key, otherwise,
                                   {{"silu", Activation::swiglu},
                                    {"swish", Activation::swiglu},
                                    {"gelu", Activation::geglu},
                                    {"gelu_pytorch_tanh", Activation::geglu_tanh},
                                    {"gelu_new", Activation::geglu_tanh}});
}

LanguageModelConfig read_swiglu(JsonFields& reader, const Defaults& defaults) {
  auto config = read_common(reader, defaults);
  config.stack.activation = read_gated_activation(reader, "hidden_act", "silu");
  return config;
}

/// Returns the sliding window, which the value null switches off.
int64_t read_window(JsonFields& reader) {
  return reader.size("sliding_window", reader.is_null("sliding_window") ? 0 : 4096);
}

/// Returns the window of each layer, or an empty list if no layer has one: `layer_types` or, if it
/// is absent, what `has_window` returns for the layer.
template <typename HasWindow>
std::vector<int64_t> read_windows(JsonFields& reader, int64_t num_layers, int64_t window,
                                  const HasWindow& has_window) {
  const auto types = reader.strings("layer_types");
  if (!types.empty() && std::ssize(types) != num_layers) {
    reader.throw_unexpected("layer_types", fmt::format("{} types, one for each layer", num_layers));
  }
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < num_layers; ++i) {
    const auto type = types.empty() ? std::string() : types[static_cast<std::size_t>(i)];
    if (!types.empty() && type != "sliding_attention" && type != "full_attention") {
      throw InputError(fmt::format(
          "`layer_types`: found '{}', expected sliding_attention or full_attention", type));
    }
    windows.push_back((types.empty() ? has_window(i) : type == "sliding_attention") ? window : 0);
  }
  const bool none = std::ranges::all_of(windows, [](auto each) { return each == 0; });
  return none ? std::vector<int64_t>() : windows;
}

/// Sets the windows of the layers. Equal windows are one option.
void set_windows(StackConfig& stack, const std::vector<int64_t>& windows) {
  if (windows.empty()) return;
  const bool equal = std::ranges::all_of(windows, [&](auto each) { return each == windows[0]; });
  if (equal) {
    stack.sliding_window = windows[0];
  } else {
    stack.sliding_window_pattern = windows;
  }
}

ModelConfig read_llama(JsonFields& reader, const std::string& /*class_name*/) {
  const auto config = read_swiglu(reader, {});
  reader.ignore({"pretraining_tp"});
  return config;
}

ModelConfig read_mistral(JsonFields& reader, const std::string& /*class_name*/) {
  auto config = read_swiglu(
      reader,
      {.intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 131072});
  const auto window = read_window(reader);
  set_windows(config.stack, read_windows(reader, config.stack.num_layers, window,
                                         [](int64_t /*layer*/) { return true; }));
  return config;
}

ModelConfig read_mixtral(JsonFields& reader, const std::string& /*class_name*/) {
  auto config = read_swiglu(reader, {.intermediate_size = 14336,
                                     .num_key_value_heads = 8,
                                     .max_position_embeddings = 131072,
                                     .rms_norm_eps = 1e-5,
                                     .rope_theta = 1e6});
  config.stack.num_experts = reader.size("num_local_experts", 8, 1, kMaxCount);
  config.stack.num_experts_per_tok = reader.size("num_experts_per_tok", 2);
  const auto window = reader.size("sliding_window", 0, /*min=*/0);
  set_windows(config.stack, read_windows(reader, config.stack.num_layers, window,
                                         [](int64_t /*layer*/) { return true; }));
  return config;
}

/// Reads the keys that Qwen2 and Qwen3 share.
LanguageModelConfig read_qwen(JsonFields& reader, Defaults defaults) {
  defaults.vocab_size = 151936;
  defaults.intermediate_size = 22016;
  defaults.num_key_value_heads = 32;
  defaults.max_position_embeddings = 32768;
  auto config = read_swiglu(reader, defaults);
  const bool use_window = reader.boolean("use_sliding_window", false);
  const auto window = read_window(reader);
  reader.require("use_mrope", false);
  const auto first = reader.size("max_window_layers", 28, 0);
  const auto windows = read_windows(reader, config.stack.num_layers, window,
                                    [&](int64_t layer) { return use_window && layer >= first; });
  set_windows(config.stack, windows);
  return config;
}

ModelConfig read_qwen2(JsonFields& reader, const std::string& /*class_name*/) {
  auto config = read_qwen(reader, {});
  config.stack.qkv_bias = true;
  return config;
}

ModelConfig read_qwen3(JsonFields& reader, const std::string& /*class_name*/) {
  auto config = read_qwen(reader, {.head_dim = 128});
  config.stack.qk_norm = QKNormKind::rms;
  return config;
}

ModelConfig read_gemma2(JsonFields& reader, const std::string& /*class_name*/) {
  auto config = read_common(reader, {.vocab_size = 256000,
                                     .hidden_size = 2304,
                                     .intermediate_size = 9216,
                                     .num_hidden_layers = 26,
                                     .num_attention_heads = 8,
                                     .num_key_value_heads = 4,
                                     .head_dim = 256,
                                     .max_position_embeddings = 8192,
                                     .tie_word_embeddings = true});
  auto& stack = config.stack;
  const char* activation = reader.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  stack.activation = read_gated_activation(reader, activation, "gelu_pytorch_tanh");
  reader.ignore({"hidden_act", "hidden_activation"});
  stack.norm_order = NormOrder::sandwich;
  stack.embedding_scale = std::sqrt(static_cast<double>(stack.embed_dim));
  stack.attention_scale = 1.0 / std::sqrt(reader.number("query_pre_attn_scalar", 256.0));
  // A key with the value null switches a cap off.
  const auto cap = [&](const char* key, double otherwise) {
    return reader.number(key, reader.is_null(key) ? 0.0 : otherwise);
  };
  stack.soft_cap = cap("attn_logit_softcapping", 50.0);
  config.final_logit_soft_cap = cap("final_logit_softcapping", 30.0);
  reader.require("use_bidirectional_attention", false);
  const auto window = reader.size("sliding_window", 4096);
  set_windows(stack, read_windows(reader, stack.num_layers, window,
                                  [](int64_t layer) { return layer % 2 == 0; }));
  return config;
}

/// Adds the weights of a mixture of experts. `experts` is the name in the file.
void add_experts(const WeightRows& block, const StackConfig& stack, const std::string& experts) {
  block.linear("feed_forward.router", {{experts + ".gate", stack.num_experts}}, stack.embed_dim,
               false);
  for (int64_t i = 0; i < stack.num_experts; ++i) {
    const auto expert = block.inside(fmt::format("feed_forward.experts.{}.", i),
                                     fmt::format("{}.experts.{}.", experts, i));
    expert.linear("up", {{"w1", stack.dim_feedforward}, {"w3", stack.dim_feedforward}},
                  stack.embed_dim, false);
    expert.linear("down", {{"w2", stack.embed_dim}}, stack.dim_feedforward, false);
  }
}

WeightRows weights(const LanguageModelConfig& config, const WeightLayout& norms = {}) {
  const auto& stack = config.stack;
  const auto width = stack.embed_dim;
  const auto queries = stack.num_heads * stack.head_dim;
  const auto keys = stack.num_kv_heads * stack.head_dim;
  const bool sandwich = stack.norm_order == NormOrder::sandwich;
  WeightRows rows;
  rows.embedding("embedding.token", "embed_tokens", config.vocab_size, width);
  for (int64_t i = 0; i < stack.num_layers; ++i) {
    const auto block =
        rows.inside(fmt::format("decoder.blocks.{}.", i), fmt::format("layers.{}.", i));
    block.norm("norm1", "input_layernorm", width, false, norms);
    block.linear(
        "attention.qkv",
        {{"self_attn.q_proj", queries}, {"self_attn.k_proj", keys}, {"self_attn.v_proj", keys}},
        width, stack.qkv_bias);
    block.linear("attention.out", {{"self_attn.o_proj", width}}, queries, false);
    if (stack.qk_norm == QKNormKind::rms) {
      block.norm("attention.qk_norm.query", "self_attn.q_norm", stack.head_dim, false);
      block.norm("attention.qk_norm.key", "self_attn.k_norm", stack.head_dim, false);
    }
    if (sandwich) {
      block.norm("norm1_out", "post_attention_layernorm", width, false, norms);
      block.norm("norm2", "pre_feedforward_layernorm", width, false, norms);
      block.norm("norm2_out", "post_feedforward_layernorm", width, false, norms);
    } else {
      block.norm("norm2", "post_attention_layernorm", width, false, norms);
    }
    if (stack.num_experts > 0) {
      add_experts(block, stack, "block_sparse_moe");
      continue;
    }
    block.linear("feed_forward.up",
                 {{"mlp.gate_proj", stack.dim_feedforward}, {"mlp.up_proj", stack.dim_feedforward}},
                 width, false);
    block.linear("feed_forward.down", {{"mlp.down_proj", width}}, stack.dim_feedforward, false);
  }
  rows.norm("decoder.norm", "norm", width, false, norms);
  if (!config.tie_embeddings) rows.linear("head", {{"lm_head", config.vocab_size}}, width, false);
  return rows;
}

WeightRows llama_weights(const ModelConfig& config) {
  return weights(std::get<LanguageModelConfig>(config));
}

WeightRows gemma_weights(const ModelConfig& config) {
  return weights(std::get<LanguageModelConfig>(config), {WeightLayout::unit_offset});
}

}  // namespace

std::vector<Architecture> llama_architectures() {
  const auto make = [](const char* model_type, const std::string& name, auto read_config,
                       auto weights) {
    return Architecture{.model_type = model_type,
                        .classes = {name + "ForCausalLM", name + "Model"},
                        .prefix = "model.",
                        .read_config = read_config,
                        .weights = weights,
                        .ignored = {".rotary_emb.inv_freq"}};
  };
  return {make("llama", "Llama", read_llama, llama_weights),
          make("mistral", "Mistral", read_mistral, llama_weights),
          make("mixtral", "Mixtral", read_mixtral, llama_weights),
          make("qwen2", "Qwen2", read_qwen2, llama_weights),
          make("qwen3", "Qwen3", read_qwen3, llama_weights),
          make("gemma2", "Gemma2", read_gemma2, gemma_weights)};
}

}  // namespace attend
