// Llama (Touvron et al. 2023, Grattafiori et al. 2024), and models that differ from it by few
// options: Mistral, Mixtral, Qwen2, Qwen3, Gemma 2 and Phi-3.
#include "pretrained/architecture.h"

#include <fmt/format.h>

#include <algorithm>
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
  int64_t num_key_value_heads = 0;  ///< 0 = num_attention_heads, which null means, too
  int64_t head_dim = 0;             ///< 0 = hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<double> partial_rotary_factor = std::nullopt;  ///< see `declare_rotary`
  bool tie_word_embeddings = false;
};

LanguageModelConfig llama_base() {
  LanguageModelConfig config;
  auto& stack = config.stack;
  stack.bias = false;
  stack.norm = NormKind::rms;
  stack.positions = PositionScheme::rotary;
  stack.activation = Activation::swiglu;
  return config;
}

LanguageModelConfig qwen2_base() {
  auto config = llama_base();
  config.stack.qkv_bias = true;
  return config;
}

LanguageModelConfig qwen3_base() {
  auto config = llama_base();
  config.stack.qk_norm = QKNormKind::rms;
  return config;
}

LanguageModelConfig gemma2_base() {
  auto config = llama_base();
  config.stack.norm_order = NormOrder::sandwich;
  return config;
}

/// Names of the activations of gated feed-forward layers.
constexpr std::array<std::pair<std::string_view, Activation>, 5> kGatedActivations{
    {{"silu", Activation::swiglu},
     {"swish", Activation::swiglu},
     {"gelu", Activation::geglu},
     {"gelu_pytorch_tanh", Activation::geglu_tanh},
     {"gelu_new", Activation::geglu_tanh}}};

/// Declares the keys that all of these models have, except their activation.
LanguageModelConfig& declare_common(ConfigKeys& keys, ModelConfig& any, const Defaults& defaults) {
  auto& config = std::get<LanguageModelConfig>(any);
  auto& stack = config.stack;
  keys.size("vocab_size", config.vocab_size, defaults.vocab_size);
  keys.size("max_position_embeddings", config.max_seq_len, defaults.max_position_embeddings);
  keys.boolean("tie_word_embeddings", config.tie_embeddings, defaults.tie_word_embeddings);
  keys.size("hidden_size", stack.embed_dim, defaults.hidden_size);
  keys.size("num_hidden_layers", stack.num_layers, defaults.num_hidden_layers, 1, kMaxCount);
  keys.size("num_attention_heads", stack.num_heads, defaults.num_attention_heads);
  constexpr const char* kKeyHeads = "num_key_value_heads";
  const bool is_null = keys.reads() && keys.reader().is_null(kKeyHeads);
  keys.size(kKeyHeads, stack.num_kv_heads,
            is_null || defaults.num_key_value_heads == 0 ? stack.num_heads
                                                         : defaults.num_key_value_heads);
  keys.size("head_dim", stack.head_dim,
            defaults.head_dim == 0 ? stack.embed_dim / stack.num_heads : defaults.head_dim);
  keys.size("intermediate_size", stack.dim_feedforward, defaults.intermediate_size);
  keys.number("rms_norm_eps", stack.norm_eps, defaults.rms_norm_eps);
  declare_rotary(keys, stack.rotary, stack.head_dim, config.max_seq_len, defaults.rope_theta,
                 defaults.partial_rotary_factor);
  keys.require("attention_bias", false);
  keys.require("mlp_bias", false);
  return config;
}

LanguageModelConfig& declare_swiglu(ConfigKeys& keys, ModelConfig& any, const Defaults& defaults) {
  auto& config = declare_common(keys, any, defaults);
  keys.activation("hidden_act", config.stack.activation, "silu", kGatedActivations);
  return config;
}

/// Returns the window of each layer; 0 = none.
std::vector<int64_t> windows_of(const StackConfig& stack) {
  const auto& pattern = stack.sliding_window_pattern;
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < stack.num_layers; ++i) {
    windows.push_back(pattern.empty() ? stack.sliding_window
                                      : pattern[static_cast<std::size_t>(i) % pattern.size()]);
  }
  return windows;
}

/// Sets the windows of the layers. Equal windows are one option.
void set_windows(StackConfig& stack, const std::vector<int64_t>& windows) {
  const bool equal = std::ranges::all_of(windows, [&](auto each) { return each == windows[0]; });
  stack.sliding_window = equal ? windows[0] : 0;
  stack.sliding_window_pattern = equal ? std::vector<int64_t>() : windows;
}

template <typename T>
nlohmann::ordered_json null_if_zero(T value) {
  return value == T(0) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

/// Declares a window of all layers, which the value null switches off.
void declare_window(ConfigKeys& keys, StackConfig& stack, int64_t missing) {
  constexpr const char* kKey = "sliding_window";
  if (keys.reads()) {
    stack.sliding_window = keys.reader().is_null(kKey) ? 0 : keys.reader().size(kKey, missing, 0);
    keys.ignore({kKey});
  } else {
    keys.write(kKey, null_if_zero(std::ranges::max(windows_of(stack))));
  }
}

/// Declares the window of each layer: `layer_types` or, if it is absent, what `has_window` returns
/// for the layer. Layers with a window have that of `sliding_window`.
template <typename HasWindow>
void declare_windows(ConfigKeys& keys, StackConfig& stack, const HasWindow& has_window) {
  constexpr const char* kTypes = "layer_types";
  constexpr std::string_view kSliding = "sliding_attention";
  constexpr std::string_view kFull = "full_attention";
  const auto old = windows_of(stack);
  declare_window(keys, stack, 4096);
  if (!keys.reads()) {
    nlohmann::ordered_json types;
    for (const auto window : old) types.push_back(window > 0 ? kSliding : kFull);
    return keys.write(kTypes, types);
  }
  auto& reader = keys.reader();
  const auto types = reader.strings(kTypes);
  if (!types.empty() && std::ssize(types) != stack.num_layers) {
    reader.throw_unexpected(kTypes, fmt::format("{} types, one for each layer", stack.num_layers));
  }
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < stack.num_layers; ++i) {
    const auto type = types.empty() ? std::string() : types[static_cast<std::size_t>(i)];
    if (!types.empty() && type != kSliding && type != kFull) {
      throw InputError(
          fmt::format("`{}`: found '{}', expected {} or {}", kTypes, type, kSliding, kFull));
    }
    const bool slides = types.empty() ? has_window(i) : type == kSliding;
    windows.push_back(slides ? stack.sliding_window : 0);
  }
  set_windows(stack, windows);
}

void declare_llama(ConfigKeys& keys, ModelConfig& any) {
  declare_swiglu(keys, any, {});
  keys.ignore({"pretraining_tp"});
}

void declare_mistral(ConfigKeys& keys, ModelConfig& any) {
  auto& config = declare_swiglu(
      keys, any,
      {.intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 131072});
  declare_window(keys, config.stack, 4096);
}

void declare_mixtral(ConfigKeys& keys, ModelConfig& any) {
  auto& config = declare_swiglu(keys, any,
                                {.intermediate_size = 14336,
                                 .num_key_value_heads = 8,
                                 .max_position_embeddings = 131072,
                                 .rms_norm_eps = 1e-5,
                                 .rope_theta = 1e6});
  keys.size("num_local_experts", config.stack.num_experts, 8, 1, kMaxCount);
  keys.size("num_experts_per_tok", config.stack.num_experts_per_tok, 2);
  declare_window(keys, config.stack, 0);
}

/// Declares the keys that Qwen2 and Qwen3 share.
void declare_qwen(ConfigKeys& keys, ModelConfig& any, Defaults defaults) {
  defaults.vocab_size = 151936;
  defaults.intermediate_size = 22016;
  defaults.num_key_value_heads = 32;
  defaults.max_position_embeddings = 32768;
  auto& config = declare_swiglu(keys, any, defaults);
  keys.require("use_mrope", false);
  bool use_window = std::ranges::max(windows_of(config.stack)) > 0;
  keys.boolean("use_sliding_window", use_window, false);
  int64_t first = 0;
  keys.size("max_window_layers", first, 28, 0);
  declare_windows(keys, config.stack, [&](int64_t layer) { return use_window && layer >= first; });
}

void declare_qwen2(ConfigKeys& keys, ModelConfig& any) {
  declare_qwen(keys, any, {});
}

void declare_qwen3(ConfigKeys& keys, ModelConfig& any) {
  declare_qwen(keys, any, {.head_dim = 128});
}

/// Declares a number, which the value null sets to 0.
void declare_cap(ConfigKeys& keys, const char* key, double& cap, double missing) {
  if (keys.reads()) {
    cap = keys.reader().number(key, keys.reader().is_null(key) ? 0.0 : missing);
  } else {
    keys.write(key, null_if_zero(cap));
  }
}

/// Declares the scale 1 / sqrt(N), where N is an integer.
void declare_attention_scale(ConfigKeys& keys, double& scale) {
  constexpr const char* kKey = "query_pre_attn_scalar";
  if (keys.reads()) {
    scale = 1.0 / std::sqrt(keys.reader().number(kKey, 256.0));
    return;
  }
  keys.write(kKey, std::llround(std::pow(scale, -2.0)));
}

void declare_gemma2(ConfigKeys& keys, ModelConfig& any) {
  auto& config = declare_common(keys, any,
                                {.vocab_size = 256000,
                                 .hidden_size = 2304,
                                 .intermediate_size = 9216,
                                 .num_hidden_layers = 26,
                                 .num_attention_heads = 8,
                                 .num_key_value_heads = 4,
                                 .head_dim = 256,
                                 .max_position_embeddings = 8192,
                                 .tie_word_embeddings = true});
  auto& stack = config.stack;
  keys.activation("hidden_activation", stack.activation, "gelu_pytorch_tanh", kGatedActivations);
  keys.ignore({"hidden_act"});  // transformers ignores it, too
  stack.embedding_scale = std::sqrt(static_cast<double>(stack.embed_dim));
  declare_attention_scale(keys, stack.attention_scale);
  declare_cap(keys, "attn_logit_softcapping", stack.soft_cap, 50.0);
  declare_cap(keys, "final_logit_softcapping", config.final_logit_soft_cap, 30.0);
  keys.require("use_bidirectional_attention", false);
  declare_windows(keys, stack, [](int64_t layer) { return layer % 2 == 0; });
}

void declare_phi3(ConfigKeys& keys, ModelConfig& any) {
  auto& config = declare_swiglu(keys, any,
                                {.vocab_size = 32064,
                                 .hidden_size = 3072,
                                 .intermediate_size = 8192,
                                 .max_position_embeddings = 4096,
                                 .rms_norm_eps = 1e-5,
                                 .partial_rotary_factor = 1.0});
  declare_window(keys, config.stack, 0);
  keys.ignore({"embd_pdrop", "resid_pdrop"});
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

/// What differs between the weights of these models.
struct WeightNames {
  WeightLayout norms = {};
  bool fused = false;  ///< one tensor for queries, keys and values, and one for gate and up
};

WeightRows weights(const ModelConfig& any, const WeightNames& names = {}) {
  const auto& config = std::get<LanguageModelConfig>(any);
  const auto& norms = names.norms;
  const auto& stack = config.stack;
  const auto width = stack.embed_dim;
  const auto queries = stack.num_heads * stack.head_dim;
  const auto keys = stack.num_kv_heads * stack.head_dim;
  const auto hidden = stack.dim_feedforward;
  const bool sandwich = stack.norm_order == NormOrder::sandwich;
  WeightRows rows;
  rows.embedding("embedding.token", "embed_tokens", config.vocab_size, width);
  for (int64_t i = 0; i < stack.num_layers; ++i) {
    const auto block =
        rows.inside(fmt::format("decoder.blocks.{}.", i), fmt::format("layers.{}.", i));
    block.norm("norm1", "input_layernorm", width, false, norms);
    std::vector<LinearPart> qkv{
        {"self_attn.q_proj", queries}, {"self_attn.k_proj", keys}, {"self_attn.v_proj", keys}};
    if (names.fused) qkv = {{"self_attn.qkv_proj", queries + 2 * keys}};
    block.linear("attention.qkv", qkv, width, stack.qkv_bias);
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
    std::vector<LinearPart> up{{"mlp.gate_proj", hidden}, {"mlp.up_proj", hidden}};
    if (names.fused) up = {{"mlp.gate_up_proj", 2 * hidden}};
    block.linear("feed_forward.up", up, width, false);
    block.linear("feed_forward.down", {{"mlp.down_proj", width}}, hidden, false);
  }
  rows.norm("decoder.norm", "norm", width, false, norms);
  if (!config.tie_embeddings) rows.linear("head", {{"lm_head", config.vocab_size}}, width, false);
  return rows;
}

WeightRows llama_weights(const ModelConfig& config) {
  return weights(config);
}
WeightRows gemma_weights(const ModelConfig& config) {
  return weights(config, {.norms = {WeightLayout::unit_offset}});
}
WeightRows phi3_weights(const ModelConfig& config) {
  return weights(config, {.fused = true});
}

}  // namespace

std::vector<Architecture> llama_architectures() {
  const auto make = [](const char* model_type, const std::string& name,
                       const LanguageModelConfig& base, auto declare, auto weights) {
    return Architecture{.model_type = model_type,
                        .classes = {name + "ForCausalLM"},  // the base class has no head
                        .prefix = "model.",
                        .head = "lm_head.",
                        .base = base,
                        .declare = declare,
                        .weights = weights,
                        .ignored = {".rotary_emb.inv_freq"}};
  };
  return {make("llama", "Llama", llama_base(), declare_llama, llama_weights),
          make("mistral", "Mistral", llama_base(), declare_mistral, llama_weights),
          make("mixtral", "Mixtral", llama_base(), declare_mixtral, llama_weights),
          make("qwen2", "Qwen2", qwen2_base(), declare_qwen2, llama_weights),
          make("qwen3", "Qwen3", qwen3_base(), declare_qwen3, llama_weights),
          make("gemma2", "Gemma2", gemma2_base(), declare_gemma2, gemma_weights),
          make("phi3", "Phi3", llama_base(), declare_phi3, phi3_weights)};
}

}  // namespace attend
