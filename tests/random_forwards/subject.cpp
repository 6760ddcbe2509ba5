#include "random_forwards/subject.h"

#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "attend/nn/encoder_decoder.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/output_gate.h"
#include "attend/nn/value_residual.h"
#include "attend/train/recipe_fields.h"
#include "random_forwards/draw_config.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

namespace attend {
namespace {

constexpr int64_t kMaxSeqLen = 16;

/// Returns the fields that differ from their defaults, each after a space, e.g.
/// " num_layers=3 norm=rms".
std::string describe(const ModelConfig& config) {
  train::Recipe recipe, defaults;
  recipe.model = config;
  std::visit([&](const auto& c) { defaults.model = std::decay_t<decltype(c)>(); }, config);
  std::string text;
  for (const auto& field : train::recipe_fields()) {
    const auto value = value_text(field, recipe);
    if (value != value_text(field, defaults)) text += std::string(" ") + field.key + "=" + value;
  }
  return text;
}

/// Creates `Holder(options)` in float64 and eval mode. The weights are drawn with `seed`. Noise is
/// added to them, because initial values of 0 or 1 would hide errors.
template <typename Holder, typename Options>
std::shared_ptr<torch::nn::Module> make_module(const Options& options, int64_t seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  Holder module(options);
  module->to(torch::kDouble);
  module->eval();
  const torch::NoGradGuard no_grad;
  for (auto& parameter : module->parameters()) parameter.add_(0.3 * torch::randn_like(parameter));
  return module.ptr();
}

torch::Tensor draw_tokens(int64_t batch, int64_t tokens, int64_t vocab_size) {
  return torch::randint(0, vocab_size, {batch, tokens}, torch::kLong);
}

torch::Tensor draw_bools(at::IntArrayRef sizes) {
  return torch::rand(sizes) > 0.3;
}

/// Returns true if a LayerNorm has two channels. Its output depends almost only on which channel is
/// larger, so that the terms of its gradient cancel out.
bool normalizes_two_channels(const StackConfig& config) {
  return config.norm == NormKind::layer && config.embed_dim == 2;
}

/// Returns true if a rounding error can change the result of a model discontinuously. It can change
/// the choice of experts, or the signs of the output of a LayerNorm with two channels.
bool is_discontinuous(const StackConfig& config) {
  return config.num_experts > 0 || normalizes_two_channels(config);
}

/// The arguments that a subject passes to attention. The constructor draws which tensors are
/// passed, and whether attention is causal or has a sliding window. Each call of `draw_inputs`
/// draws new values for the tensors.
struct DrawnArgs {
  static constexpr std::size_t kCount =
      4;  ///< number of tensors: mask, key_mask, segments, positions

  bool causal = draw_chance(50);
  int64_t sliding_window = draw_chance(15) ? draw(1, 4) : 0;
  int64_t mask_kind = draw_chance(50) ? 0 : draw(1, 2);  ///< 0 = none, 1 = bool, 2 = float
  int64_t mask_heads = 1;
  bool key_mask = draw_chance(25);
  bool segments = draw_chance(15);
  bool positions = draw_chance(15);

  bool any() const { return mask_kind != 0 || key_mask || segments || positions; }

  Tensors draw_inputs(int64_t b, int64_t t, int64_t s) const {
    Tensors inputs(kCount);
    if (mask_kind != 0) {
      inputs[0] = draw_bools({b, mask_heads, t, s});
      if (mask_kind == 2) {
        const auto added = torch::randn(inputs[0].sizes(), torch::kDouble);
        inputs[0] = torch::where(inputs[0], added, -std::numeric_limits<double>::infinity());
      }
    }
    if (key_mask) inputs[1] = draw_bools({b, s});
    if (segments) inputs[2] = torch::randint(0, 2, {b, t}, torch::kLong);
    if (positions) inputs[3] = torch::randint(0, kMaxSeqLen, {b, t}, torch::kLong);
    return inputs;
  }

  AttentionArgs args(const Tensors& inputs, std::size_t first) const {
    return {.mask = inputs[first],
            .key_mask = inputs[first + 1],
            .segments = inputs[first + 2],
            .positions = inputs[first + 3],
            .causal = causal,
            .sliding_window = sliding_window};
  }
};

Tensors concatenate(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Appends `count` copies of the last token of x (B, T, ...).
torch::Tensor pad_tokens(const torch::Tensor& x, int64_t count) {
  if (!x.defined()) return x;
  const auto last = x.narrow(1, x.size(1) - 1, 1);
  std::vector<int64_t> sizes(static_cast<std::size_t>(x.dim()), -1);
  sizes[1] = count;
  return torch::cat({x, last.expand(sizes)}, 1);
}

torch::Tensor pad_key_mask(const torch::Tensor& key_mask, const torch::Tensor& x, int64_t count) {
  const auto real =
      key_mask.defined() ? key_mask : torch::ones({x.size(0), x.size(1)}, torch::kBool);
  return torch::cat({real, torch::zeros({x.size(0), count}, torch::kBool)}, 1);
}

/// `inputs` are x, mask, key_mask, segments and positions. Pads all of them except the mask, which
/// must be undefined.
Tensors pad_self_attention(const Tensors& inputs, int64_t count) {
  return {pad_tokens(inputs[0], count),
          {},
          pad_key_mask(inputs[2], inputs[0], count),
          pad_tokens(inputs[3], count),
          pad_tokens(inputs[4], count)};
}

/// Calls `step(begin, count)` for successive pieces of 1 to 4 tokens and concatenates the outputs
/// (B, count, ...).
template <typename Step>
torch::Tensor in_pieces(int64_t tokens, const Step& step) {
  Tensors outputs;
  for (int64_t begin = 0; begin < tokens;) {
    const auto count = std::min(draw(1, 4), tokens - begin);
    outputs.push_back(step(begin, count));
    begin += count;
  }
  return torch::cat(outputs, 1);
}

/// Splits `tokens` (B, T) into pieces. In each piece, each sequence has its next 0 to 3 tokens and
/// padding on the left or right. Calls `step(piece, key_mask)` for each piece and concatenates the
/// outputs of each sequence.
template <typename Step>
torch::Tensor in_ragged_pieces(const torch::Tensor& tokens, const Step& step) {
  const auto batch = tokens.size(0);
  std::vector<int64_t> done(static_cast<std::size_t>(batch), 0);
  std::vector<Tensors> outputs(done.size());
  while (*std::min_element(done.begin(), done.end()) < tokens.size(1)) {
    std::vector<int64_t> counts;
    for (const auto begin : done) counts.push_back(std::min(draw(0, 3), tokens.size(1) - begin));
    const auto length = *std::max_element(counts.begin(), counts.end()) + draw(0, 1);
    const bool left = draw_chance(50);
    const auto piece = torch::zeros({batch, length}, torch::kLong);
    const auto key_mask = torch::zeros({batch, length}, torch::kBool);
    const auto part = [&](const torch::Tensor& x, int64_t b) {
      const auto count = counts[static_cast<std::size_t>(b)];
      return x[b].narrow(0, left ? length - count : 0, count);  // (count, ...)
    };
    for (int64_t b = 0; b < batch; ++b) {
      const auto row = static_cast<std::size_t>(b);
      part(piece, b).copy_(tokens[b].narrow(0, done[row], counts[row]));
      part(key_mask, b).fill_(true);
    }
    const auto y = step(piece, key_mask);  // (B, length, ...)
    for (int64_t b = 0; b < batch; ++b) {
      const auto row = static_cast<std::size_t>(b);
      outputs[row].push_back(part(y, b));
      done[row] += counts[row];
    }
  }
  Tensors sequences;
  for (const auto& pieces : outputs) sequences.push_back(torch::cat(pieces));
  return torch::stack(sequences);
}

KvCache make_cache(const StackConfig& config, int64_t num_layers, const torch::Tensor& x) {
  return KvCache(cache_options(config, num_layers, x.size(0), kMaxSeqLen).dtype(x.scalar_type()));
}

/// Sets `args` to causal attention without masks, segments, positions and sliding window, because
/// `run_cached` passes none of these.
void make_cacheable(DrawnArgs& args) {
  args = {};
  args.causal = true;
  args.sliding_window = args.mask_kind = 0;
  args.key_mask = args.segments = args.positions = false;
}

DrawnArgs draw_args(const StackConfig& config, bool& cacheable) {
  DrawnArgs args;
  args.mask_heads = draw_one_of({int64_t{1}, config.num_heads});
  // If the config has a sliding window, a hook of the attention sets it, so `args` sets none.
  if (config.sliding_window > 0) args.sliding_window = 0;
  cacheable = draw_chance(40);
  if (cacheable) make_cacheable(args);
  return args;
}

StackConfig with_dropout(StackConfig config) {
  config.dropout = draw_one_of({0.0, 0.2});
  config.stochastic_depth = draw_one_of({0.0, 0.3});
  return config;
}

Subject self_attention_subject() {
  auto config = draw_stack_config();
  config.value_residual = false;  // needs a stack
  bool cacheable = false;
  const auto args = draw_args(config, cacheable);
  const auto stack = encoder_options(config, args.causal);
  auto block = stack.block();
  stack.per_layer()(0, block);  // adds the hooks of the first layer, such as its window
  auto options = block.attention();
  if (!config.output_gate && draw_chance(20)) options.add(output_gate(GateWidth::element));
  const auto seed = draw(0, 1 << 30);
  Subject subject{.description =
                      "MultiheadAttention" + describe(LanguageModelConfig{.stack = config})};
  subject.make = [=](bool) { return make_module<MultiheadAttention>(options, seed); };
  subject.draw_inputs = [=](const InputSizes& sizes) {
    const auto x = torch::randn({sizes.batch, sizes.tokens, config.embed_dim}, torch::kDouble);
    return concatenate({x}, args.draw_inputs(sizes.batch, sizes.tokens, sizes.tokens));
  };
  subject.run = [=](torch::nn::Module& module, const Tensors& inputs) {
    return module.as<MultiheadAttention>()->forward(inputs[0], args.args(inputs, 1)).output;
  };
  if (cacheable) {
    subject.run_cached = [=](torch::nn::Module& module, const Tensors& inputs) {
      auto cache = make_cache(config, 1, inputs[0]);
      return in_pieces(inputs[0].size(1), [&](int64_t begin, int64_t count) {
        cache.extend(count);
        return module.as<MultiheadAttention>()
            ->forward(inputs[0].narrow(1, begin, count), {.causal = true}, {.cache = &cache})
            .output;
      });
    };
  }
  if (args.mask_kind == 0) subject.pad = pad_self_attention;
  return subject;
}

Subject cross_attention_subject() {
  const auto config = draw_stack_config();
  DrawnArgs args;
  args.mask_heads = draw_one_of({int64_t{1}, config.num_heads});
  args.segments = args.positions = false;
  auto options = decoder_options(config, 1).block().cross_attention();
  const auto kdim = draw(1, 6), vdim = draw(1, 6);
  if (draw_chance(50)) options.kdim(kdim).vdim(vdim);
  const auto k = options.kdim().value_or(config.embed_dim);
  const auto v = options.vdim().value_or(config.embed_dim);
  const auto seed = draw(0, 1 << 30);
  Subject subject{.description =
                      "MultiheadAttention::cross" + describe(Seq2SeqConfig{.stack = config})};
  subject.make = [=](bool) { return make_module<MultiheadAttention>(options, seed); };
  subject.draw_inputs = [=](const InputSizes& sizes) {
    const auto [b, t, s] = sizes;
    return concatenate(
        {torch::randn({b, t, config.embed_dim}, torch::kDouble),
         torch::randn({b, s, k}, torch::kDouble), torch::randn({b, s, v}, torch::kDouble)},
        args.draw_inputs(b, t, s));
  };
  subject.run = [=](torch::nn::Module& module, const Tensors& inputs) {
    return module.as<MultiheadAttention>()
        ->cross(inputs[0], inputs[1], inputs[2], args.args(inputs, 3))
        .output;
  };
  return subject;
}

Subject encoder_subject() {
  const auto config = with_dropout(draw_stack_config());
  bool cacheable = false;
  const auto args = draw_args(config, cacheable);
  auto options = encoder_options(config, args.causal);
  std::string feed_forward;
  if (config.num_experts == 0 && draw_chance(20)) {
    feed_forward = " custom_feed_forward";
    options.block().custom_feed_forward(
        [](int64_t width) { return torch::nn::AnyModule(torch::nn::Linear(width, width)); });
  } else if (draw_chance(20)) {
    feed_forward = " activation=mish";
    options.block().feed_forward().activation(
        [](const torch::Tensor& x) { return torch::mish(x); });
  }
  const auto seed = draw(0, 1 << 30);
  Subject subject{.description = "TransformerEncoder" + feed_forward +
                                 describe(LanguageModelConfig{.stack = config})};
  subject.make = [=](bool gradient_checkpointing) {
    auto with = options;
    return make_module<TransformerEncoder>(with.gradient_checkpointing(gradient_checkpointing),
                                           seed);
  };
  subject.draw_inputs = [=](const InputSizes& sizes) {
    const auto x = torch::randn({sizes.batch, sizes.tokens, config.embed_dim}, torch::kDouble);
    return concatenate({x}, args.draw_inputs(sizes.batch, sizes.tokens, sizes.tokens));
  };
  subject.run = [=](torch::nn::Module& module, const Tensors& inputs) {
    return module.as<TransformerEncoder>()->forward(inputs[0], args.args(inputs, 1));
  };
  if (cacheable) {
    subject.run_cached = [=](torch::nn::Module& module, const Tensors& inputs) {
      auto cache = make_cache(config, config.num_layers, inputs[0]);
      return in_pieces(inputs[0].size(1), [&](int64_t begin, int64_t count) {
        cache.extend(count);
        return module.as<TransformerEncoder>()->forward(inputs[0].narrow(1, begin, count),
                                                        {.causal = true}, {.cache = &cache});
      });
    };
  }
  if (!config.value_residual && !config.relative_attention_shared) {
    subject.run_layers = [=](torch::nn::Module& module, const Tensors& inputs) {
      auto& encoder = *module.as<TransformerEncoder>();
      auto x = inputs[0];
      for (const auto& block : *encoder.blocks) {
        x = block->as<TransformerBlock>()->forward(x, args.args(inputs, 1));
      }
      return encoder.norm.is_empty() ? x : encoder.norm.forward(x);
    };
  }
  if (args.mask_kind == 0) subject.pad = pad_self_attention;
  subject.has_checkpointing = true;
  subject.is_discontinuous = is_discontinuous(config);
  subject.normalizes_two_channels = normalizes_two_channels(config);
  return subject;
}

Subject encoder_decoder_subject() {
  const auto config = with_dropout(draw_stack_config());
  bool cacheable = false;
  const auto source_args = draw_args(config, cacheable);
  auto target_args = draw_args(config, cacheable);
  target_args.causal = true;  // decoder_options makes the decoder causal
  const EncoderDecoderOptions options(encoder_options(config, source_args.causal),
                                      decoder_options(config, draw(0, 2)));
  const auto seed = draw(0, 1 << 30);
  Subject subject{.description = "EncoderDecoder" + describe(Seq2SeqConfig{.stack = config})};
  subject.make = [=](bool gradient_checkpointing) {
    auto with = options;
    with.encoder().gradient_checkpointing(gradient_checkpointing);
    with.decoder().gradient_checkpointing(gradient_checkpointing);
    return make_module<EncoderDecoder>(with, seed);
  };
  subject.draw_inputs = [=](const InputSizes& sizes) {
    const auto [b, t, s] = sizes;
    return concatenate(
        {torch::randn({b, t, config.embed_dim}, torch::kDouble),
         torch::randn({b, s, config.embed_dim}, torch::kDouble)},
        concatenate(source_args.draw_inputs(b, s, s), target_args.draw_inputs(b, t, t)));
  };
  subject.run = [=](torch::nn::Module& module, const Tensors& inputs) {
    return module.as<EncoderDecoder>()->forward(inputs[1], inputs[0], source_args.args(inputs, 2),
                                                target_args.args(inputs, 2 + DrawnArgs::kCount));
  };
  subject.has_checkpointing = true;
  subject.is_discontinuous = is_discontinuous(config);
  subject.normalizes_two_channels = normalizes_two_channels(config);
  return subject;
}

Subject language_model_subject(LanguageModelConfig config) {
  config.stack = with_dropout(config.stack);
  bool cacheable = false;
  auto args = draw_args(config.stack, cacheable);
  args.causal = true;
  const auto seed = draw(0, 1 << 30);
  Subject subject{.description = "LanguageModel" + describe(config)};
  subject.make = [=](bool gradient_checkpointing) {
    auto with = config;
    with.stack.gradient_checkpointing = gradient_checkpointing;
    return make_module<LanguageModel>(with, seed);
  };
  subject.draw_inputs = [=](const InputSizes& sizes) {
    return concatenate({draw_tokens(sizes.batch, sizes.tokens, config.vocab_size)},
                       args.draw_inputs(sizes.batch, sizes.tokens, sizes.tokens));
  };
  subject.run = [=](torch::nn::Module& module, const Tensors& inputs) {
    return module.as<LanguageModel>()->forward(inputs[0], args.args(inputs, 1));
  };
  if (cacheable) {
    subject.run_cached = [=](torch::nn::Module& module, const Tensors& inputs) {
      auto& model = *module.as<LanguageModel>();
      auto cache = model.make_cache(inputs[0].size(0));
      return in_pieces(inputs[0].size(1), [&](int64_t begin, int64_t count) {
        return model.step(inputs[0].narrow(1, begin, count), cache);
      });
    };
    subject.run_cached_ragged = [](torch::nn::Module& module, const Tensors& inputs) {
      auto& model = *module.as<LanguageModel>();
      auto cache = model.make_cache(inputs[0].size(0));
      return in_ragged_pieces(inputs[0], [&](const auto& tokens, const auto& key_mask) {
        return model.step(tokens, cache, key_mask);
      });
    };
  }
  if (args.mask_kind == 0) subject.pad = pad_self_attention;
  subject.has_checkpointing = true;
  subject.is_discontinuous = is_discontinuous(config.stack);
  subject.normalizes_two_channels = normalizes_two_channels(config.stack);
  return subject;
}

Subject classifier_subject(SequenceClassifierConfig config) {
  config.stack = with_dropout(config.stack);
  const bool key_mask = draw_chance(50);
  const bool token_types = config.type_vocab_size > 0 && draw_chance(80);
  const auto seed = draw(0, 1 << 30);
  Subject subject{.description = "SequenceClassifier" + describe(config)};
  subject.make = [=](bool gradient_checkpointing) {
    auto with = config;
    with.stack.gradient_checkpointing = gradient_checkpointing;
    return make_module<SequenceClassifier>(with, seed);
  };
  subject.draw_inputs = [=](const InputSizes& sizes) -> Tensors {
    return {draw_tokens(sizes.batch, sizes.tokens, config.vocab_size),
            key_mask ? draw_bools({sizes.batch, sizes.tokens}) : torch::Tensor(),
            token_types ? draw_tokens(sizes.batch, sizes.tokens, config.type_vocab_size)
                        : torch::Tensor()};
  };
  subject.run = [](torch::nn::Module& module, const Tensors& inputs) {
    return module.as<SequenceClassifier>()->forward(inputs[0], inputs[1], inputs[2]);
  };
  subject.pad = [](const Tensors& inputs, int64_t count) -> Tensors {
    return {pad_tokens(inputs[0], count), pad_key_mask(inputs[1], inputs[0], count),
            pad_tokens(inputs[2], count)};
  };
  subject.has_checkpointing = true;
  subject.is_discontinuous = is_discontinuous(config.stack);
  subject.normalizes_two_channels = normalizes_two_channels(config.stack);
  return subject;
}

Subject seq2seq_subject(Seq2SeqConfig config) {
  config.stack = with_dropout(config.stack);
  const bool key_mask = draw_chance(50);
  const auto seed = draw(0, 1 << 30);
  Subject subject{.description = "Seq2Seq" + describe(config)};
  subject.make = [=](bool gradient_checkpointing) {
    auto with = config;
    with.stack.gradient_checkpointing = gradient_checkpointing;
    return make_module<Seq2Seq>(with, seed);
  };
  subject.draw_inputs = [=](const InputSizes& sizes) -> Tensors {
    return {draw_tokens(sizes.batch, sizes.tokens, config.target_vocab_size),
            draw_tokens(sizes.batch, sizes.source_tokens, config.source_vocab_size),
            key_mask ? draw_bools({sizes.batch, sizes.source_tokens}) : torch::Tensor()};
  };
  subject.run = [](torch::nn::Module& module, const Tensors& inputs) {
    return module.as<Seq2Seq>()->forward(inputs[1], inputs[0], inputs[2]);
  };
  subject.run_cached = [](torch::nn::Module& module, const Tensors& inputs) {
    auto& model = *module.as<Seq2Seq>();
    auto cache = model.make_cache(inputs[0].size(0));
    const auto memory = model.encode(inputs[1], inputs[2]);
    return in_pieces(inputs[0].size(1), [&](int64_t begin, int64_t count) {
      return model.step(inputs[0].narrow(1, begin, count), memory, cache, inputs[2]);
    });
  };
  // Attention to the targets is causal, so padding tokens at their end need no mask.
  subject.pad = [](const Tensors& inputs, int64_t count) -> Tensors {
    return {pad_tokens(inputs[0], count), pad_tokens(inputs[1], count),
            pad_key_mask(inputs[2], inputs[1], count)};
  };
  subject.has_checkpointing = true;
  subject.is_discontinuous = is_discontinuous(config.stack);
  subject.normalizes_two_channels = normalizes_two_channels(config.stack);
  return subject;
}

}  // namespace

Subject draw_subject() {
  switch (draw(0, 6)) {
    case 0:
      return self_attention_subject();
    case 1:
      return cross_attention_subject();
    case 2:
      return encoder_subject();
    case 3:
      return encoder_decoder_subject();
    default: {
      const auto config = draw_model_config();
      if (const auto* c = std::get_if<LanguageModelConfig>(&config))
        return language_model_subject(*c);
      if (const auto* c = std::get_if<SequenceClassifierConfig>(&config))
        return classifier_subject(*c);
      return seq2seq_subject(std::get<Seq2SeqConfig>(config));
    }
  }
}

}  // namespace attend
