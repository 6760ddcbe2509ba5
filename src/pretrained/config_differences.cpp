#include "pretrained/config_differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace attend {
namespace {

template <typename T>
std::string text_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "on" : "off";
  } else {
    return fmt::format("{}", value);
  }
}

std::string text_of(const FeedForwardActivation& activation) {
  const auto* named = std::get_if<Activation>(&activation);
  return named == nullptr ? "a function" : text_of(*named);
}

std::string text_of(const RotaryOptions& options) {
  return fmt::format("theta {}, dim {}, interleaved {}, scaling {} by {}", options.theta,
                     options.rotary_dim, text_of(options.interleaved), text_of(options.scaling),
                     options.factor);
}

std::string text_of(const RelativeBiasOptions& options) {
  return fmt::format("buckets {}, max_distance {}", options.num_buckets, options.max_distance);
}

template <typename T>
bool are_equal(const T& found, const T& expected) {
  return found == expected;
}

/// A number may be the result of several roundings.
bool are_equal(double found, double expected) {
  return std::abs(found - expected) <= 1e-12 * std::max(std::abs(found), std::abs(expected));
}

/// Functions cannot be compared.
bool are_equal(const FeedForwardActivation& found, const FeedForwardActivation& expected) {
  const auto* named = std::get_if<Activation>(&found);
  const auto* other = std::get_if<Activation>(&expected);
  return named != nullptr && other != nullptr && *named == *other;
}

/// A list of differences.
struct Differences {
  std::vector<std::string> texts = {};

  template <typename T>
  void compare(const char* name, const T& found, const T& expected) {
    if (are_equal(found, expected)) return;
    texts.push_back(
        fmt::format("{}: found {}, expected {}", name, text_of(found), text_of(expected)));
  }
};

void compare(Differences& list, const StackConfig& found, const StackConfig& expected) {
  const auto each = [&](const char* name, auto member) {
    list.compare(name, found.*member, expected.*member);
  };
  each("num_layers", &StackConfig::num_layers);
  each("num_heads", &StackConfig::num_heads);
  each("num_kv_heads", &StackConfig::num_kv_heads);
  each("head_dim", &StackConfig::head_dim);
  each("embed_dim", &StackConfig::embed_dim);
  each("dim_feedforward", &StackConfig::dim_feedforward);
  each("activation", &StackConfig::activation);
  each("num_experts", &StackConfig::num_experts);
  each("num_experts_per_tok", &StackConfig::num_experts_per_tok);
  each("norm_topk_prob", &StackConfig::norm_topk_prob);
  each("bias", &StackConfig::bias);
  if (found.bias == expected.bias) each("qkv_bias", &StackConfig::qkv_bias);
  each("positions", &StackConfig::positions);
  each("rotary", &StackConfig::rotary);
  each("relative_attention", &StackConfig::relative_bias);
  each("relative_attention_shared", &StackConfig::relative_attention_shared);
  each("embedding_scale", &StackConfig::embedding_scale);
  each("embedding_norm", &StackConfig::embedding_norm);
  each("attention_scale", &StackConfig::attention_scale);
  each("sliding_window", &StackConfig::sliding_window);
  each("sliding_window_pattern", &StackConfig::sliding_window_pattern);
  each("soft_cap", &StackConfig::soft_cap);
  each("qk_norm", &StackConfig::qk_norm);
  each("output_gate", &StackConfig::output_gate);
  each("attention_sinks", &StackConfig::attention_sinks);
  each("value_residual", &StackConfig::value_residual);
  each("smeared_keys", &StackConfig::smeared_keys);
  each("norm", &StackConfig::norm);
  each("norm_eps", &StackConfig::norm_eps);
  each("norm_order", &StackConfig::norm_order);
  each("final_norm", &StackConfig::final_norm);
  each("branch_scale", &StackConfig::branch_scale);
  each("residual_scale", &StackConfig::residual_scale);
}

// The names of the options of each kind of model.

void compare(Differences& list, const LanguageModelConfig& found,
             const LanguageModelConfig& expected) {
  const auto each = [&](const char* name, auto member) {
    list.compare(name, found.*member, expected.*member);
  };
  each("vocab_size", &LanguageModelConfig::vocab_size);
  each("max_seq_len", &LanguageModelConfig::max_seq_len);
  each("tie_embeddings", &LanguageModelConfig::tie_embeddings);
  each("logit_scale", &LanguageModelConfig::logit_scale);
  each("final_logit_soft_cap", &LanguageModelConfig::final_logit_soft_cap);
}

void compare(Differences& list, const SequenceClassifierConfig& found,
             const SequenceClassifierConfig& expected) {
  const auto each = [&](const char* name, auto member) {
    list.compare(name, found.*member, expected.*member);
  };
  each("vocab_size", &SequenceClassifierConfig::vocab_size);
  each("num_classes", &SequenceClassifierConfig::num_classes);
  each("max_seq_len", &SequenceClassifierConfig::max_seq_len);
  each("type_vocab_size", &SequenceClassifierConfig::type_vocab_size);
  each("pooling", &SequenceClassifierConfig::pooling);
  each("pooler", &SequenceClassifierConfig::pooler);
  each("normalize", &SequenceClassifierConfig::normalize);
  each("masked_lm", &SequenceClassifierConfig::masked_lm);
}

void compare(Differences& list, const Seq2SeqConfig& found, const Seq2SeqConfig& expected) {
  const auto each = [&](const char* name, auto member) {
    list.compare(name, found.*member, expected.*member);
  };
  each("source_vocab_size", &Seq2SeqConfig::source_vocab_size);
  each("target_vocab_size", &Seq2SeqConfig::target_vocab_size);
  each("max_seq_len", &Seq2SeqConfig::max_seq_len);
  each("num_decoder_layers", &Seq2SeqConfig::num_decoder_layers);
  each("tie_embeddings", &Seq2SeqConfig::tie_embeddings);
  each("logit_scale", &Seq2SeqConfig::logit_scale);
  each("final_logit_soft_cap", &Seq2SeqConfig::final_logit_soft_cap);
}

/// Repeats the pattern for all layers. Equal windows are one option.
void make_windows_explicit(StackConfig& stack) {
  auto& pattern = stack.sliding_window_pattern;
  if (pattern.empty()) return;
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < stack.num_layers; ++i)
    windows.push_back(pattern[static_cast<std::size_t>(i) % pattern.size()]);
  pattern = windows;
  const bool equal = std::ranges::all_of(windows, [&](auto each) { return each == windows[0]; });
  if (!equal) return;
  stack.sliding_window = windows.empty() ? 0 : windows[0];
  pattern.clear();
}

void make_explicit(StackConfig& stack) {
  const auto set = [](auto& value, auto usual) {
    if (value == 0) value = usual;
  };
  set(stack.num_kv_heads, stack.num_heads);
  set(stack.head_dim, stack.embed_dim / stack.num_heads);
  set(stack.dim_feedforward, 4 * stack.embed_dim);
  set(stack.attention_scale, 1.0 / std::sqrt(static_cast<double>(stack.head_dim)));
  stack.qkv_bias = stack.qkv_bias || stack.bias;
  if (stack.rotary.rotary_dim == stack.head_dim) stack.rotary.rotary_dim = 0;
  stack.relative_bias.bidirectional = RelativeBiasOptions().bidirectional;
  make_windows_explicit(stack);
  const StackConfig defaults;
  stack.dropout = defaults.dropout;
  stack.stochastic_depth = defaults.stochastic_depth;
  stack.gradient_checkpointing = defaults.gradient_checkpointing;
  stack.initialization = defaults.initialization;
}

}  // namespace

ModelConfig explicit_config(const ModelConfig& config) {
  auto result = config;
  std::visit([](auto& any) { make_explicit(any.stack); }, result);
  if (auto* seq2seq = std::get_if<Seq2SeqConfig>(&result);
      seq2seq != nullptr && seq2seq->num_decoder_layers == -1) {
    seq2seq->num_decoder_layers = seq2seq->stack.num_layers;
  }
  return result;
}

std::vector<std::string> config_differences(const ModelConfig& found, const ModelConfig& expected) {
  Differences list;
  std::visit(
      [&](const auto& config) {
        const auto& other = std::get<std::decay_t<decltype(config)>>(expected);
        compare(list, config, other);
        compare(list, config.stack, other.stack);
      },
      found);
  return list.texts;
}

}  // namespace attend
