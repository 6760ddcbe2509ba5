#include "attend/nn/branch_scale.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/qk_norm.h"
#include "attend/nn/rotary.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/transformer_encoder.h"
#include "attend/ops/fast_kernels.h"
#include "attend/ops/linear.h"
#include "nn/head_sizes.h"
#include "support/close.h"
#include "support/kernels.h"
#include "support/quantized.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <vector>

namespace attend {
namespace {

constexpr auto kStep = "attend::attention_step";

struct Plan : FixedSeed, testing::Test {
  void SetUp() override {
    if (!fast_kernels_are_enabled()) GTEST_SKIP() << "ATTEND_FAST is 0";
  }
};

bool coin() {
  return draw(0, 1) == 1;
}

/// A stack, and whether a plan supports it.
struct Drawn {
  TransformerEncoderOptions options;
  bool is_planned = true;
  bool has_scale = false;  ///< not planned, but an attention without hooks is one call
  int64_t window = 0;      ///< largest sliding window of all layers; 0 if a layer has none
};

ModuleFactory draw_norm() {
  const auto choice = draw(0, 2);
  return choice == 0 ? layer_norm() : choice == 1 ? layer_norm(1e-2, false) : rms_norm(1e-6);
}

RotaryOptions draw_rotary(int64_t head_dim) {
  RotaryOptions rotary{.theta = coin() ? 10000.0 : 100.0, .interleaved = coin()};
  if (coin()) rotary.rotary_dim = 2 * draw(1, head_dim / 2);
  switch (draw(0, 3)) {
    case 0:
      rotary.scaling = RotaryScaling::linear;
      rotary.factor = 2;
      break;
    case 1:
      rotary.scaling = RotaryScaling::yarn;
      rotary.factor = 2;
      rotary.original_max_seq_len = 8;
      break;
    default:
      break;
  }
  return rotary;
}

/// Draws options of which each occurs with each other.
Drawn draw_stack() {
  const auto groups = draw(1, 2), heads = groups * draw(1, 3), head_dim = 2 * draw(2, 12);
  TransformerBlockOptions block(draw(3, 30), heads);
  block.attention().num_kv_heads(groups).head_dim(head_dim).bias(coin()).qkv_bias(coin());
  if (coin()) block.attention().scale(0.3);
  block.dropout(coin() ? 0.1 : 0.0);
  block.feed_forward().bias(coin()).activation(coin() ? Activation::gelu : Activation::swiglu);
  block.residual().norm(draw_norm());
  Drawn drawn{TransformerEncoderOptions(block, draw(1, 3))};
  auto& options = drawn.options.block();
  if (draw(0, 5) == 0)
    options.custom_feed_forward([](int64_t width) -> torch::nn::AnyModule {
      return torch::nn::AnyModule(torch::nn::Linear(width, width));
    });
  if (draw(0, 7) == 0) {
    options.residual().branch_scale(constant_scale(0.5));
    drawn.has_scale = true;
  }
  const bool has_rotary = coin(), has_qk_norm = coin();
  if (has_qk_norm) {
    const bool is_l2 = draw(0, 5) == 0;
    options.attention().add(qk_norm(is_l2 ? l2_norm() : draw_norm()));
    if (is_l2) drawn.is_planned = false;
  }
  if (has_rotary) options.attention().add(rotary(draw_rotary(head_dim)));
  if (has_rotary && draw(0, 7) == 0) {
    options.attention().add({"other", rotary(draw_rotary(head_dim)).make});
    drawn.is_planned = false;  // two rotations
  }
  // Windows of all layers, of some, or of none.
  const auto windows = draw(0, 2), first = draw(1, 6);
  drawn.window = windows == 2 ? first + drawn.options.num_layers() - 1 : 0;
  drawn.options.per_layer([=](int64_t layer, TransformerBlockOptions& each) {
    if (windows == 2 || (windows == 1 && layer % 2 == 0))
      each.attention().add(sliding_window(first + layer));
  });
  return drawn;
}

TransformerEncoder make_encoder(const TransformerEncoderOptions& options) {
  TransformerEncoder encoder(options);
  encoder->eval();
  const torch::NoGradGuard no_grad;
  for (auto& parameter : encoder->parameters()) parameter.add_(torch::rand_like(parameter) * 0.1);
  return encoder;
}

/// A token of a sequence.
struct Token {
  int64_t sequence;
  int64_t index;
};

/// Appends the tokens of `sequences` (T, E), of random numbers, to a cache: prompts, then at most
/// one token of each at a time.
class Steps {
 public:
  Steps(TransformerEncoder encoder, Tensors sequences, KvCache cache)
      : encoder_(std::move(encoder)),
        sequences_(std::move(sequences)),
        cache_(std::move(cache)),
        lengths_(sequences_.size(), 0) {}

  /// Appends `counts` tokens; the longest of them are `tokens`. Returns whether attention was
  /// computed by one call.
  bool extend(int64_t tokens, const std::vector<int64_t>& counts, bool with_mask,
              AttentionHook* hook) {
    const auto rows = static_cast<int64_t>(sequences_.size());
    auto x = torch::zeros({rows, tokens, sequences_[0].size(1)}, sequences_[0].options());
    auto key_mask = torch::zeros({rows, tokens}, torch::kBool);
    for (int64_t b = 0; b < rows; ++b) {
      const auto count = counts[b];
      x[b].narrow(0, 0, count).copy_(sequences_[b].narrow(0, lengths_[b], count));
      key_mask[b].narrow(0, 0, count).fill_(true);
    }
    const bool padded = !key_mask.all().item<bool>();
    cache_.extend(tokens, padded || coin() ? key_mask : torch::Tensor());
    AttentionArgs args{.causal = true};
    if (with_mask && cache_.is_aligned())
      args.mask = torch::ones({tokens, cache_.lengths()[0]}, torch::kBool);
    torch::Tensor y;
    const auto operators =
        operators_of([&] { y = encoder_->forward(x, args, {.cache = &cache_, .hook = hook}); });
    for (int64_t b = 0; b < rows; ++b) {
      for (int64_t t = 0; t < counts[b]; ++t) {
        found_.push_back(y[b][t]);
        tokens_.push_back({b, lengths_[b]++});
      }
    }
    return operators.count(kStep) == 1;
  }

  const KvCache& cache() const { return cache_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  torch::Tensor found() const { return torch::stack(found_); }

  /// Returns the same outputs, each sequence computed without a cache.
  torch::Tensor expected(TransformerEncoder& exact, const Tensors& sequences) const {
    Tensors outputs, results;
    for (const auto& x : sequences) outputs.push_back(exact->forward(x, {.causal = true}));
    for (const auto& token : tokens_) results.push_back(outputs[token.sequence][token.index]);
    return torch::stack(results);
  }

 private:
  TransformerEncoder encoder_;
  Tensors sequences_;
  KvCache cache_;
  std::vector<int64_t> lengths_;
  Tensors found_;
  std::vector<Token> tokens_;
};

KvCache make_cache(const TransformerEncoder& encoder, int64_t batch, int64_t max_seq_len,
                   int64_t window) {
  const auto& attention = encoder->options.block().attention();
  return KvCache(KvCacheOptions()
                     .num_layers(encoder->options.num_layers())
                     .batch_size(batch)
                     .num_kv_heads(num_kv_heads_of(attention))
                     .head_dim(head_dim_of(attention))
                     .max_seq_len(max_seq_len)
                     .sliding_window(window)
                     .dtype(encoder->parameters()[0].scalar_type()));
}

TEST_F(Plan, EqualsBlocksWithoutCacheForRandomOptions) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  int planned = 0;
  for (int i = 0; i < 150; ++i) {
    const auto drawn = draw_stack();
    auto encoder = make_encoder(drawn.options);
    const auto batch = draw(1, 4), prompt = draw(1, 4), steps = draw(1, 8);
    Tensors sequences;
    for (int64_t b = 0; b < batch; ++b)
      sequences.push_back(
          torch::randn({prompt + steps, drawn.options.block().attention().embed_dim()}));
    // Some caches overwrite old tokens.
    const bool rolls = drawn.window > 0 && coin();
    const auto max_seq_len = rolls ? drawn.window + prompt - 1 : prompt + steps;
    Steps run(encoder, sequences,
              make_cache(encoder, batch, max_seq_len, rolls ? drawn.window : 0));
    std::vector<int64_t> counts(batch, prompt);
    if (coin())
      for (auto& count : counts) count = draw(0, prompt);
    counts.front() = std::max<int64_t>(counts.front(), 1);  // at least one output to compare
    SCOPED_TRACE(testing::Message() << *encoder << ", batch " << batch << ", rolls " << rolls);
    run.extend(prompt, counts, /*with_mask=*/false, nullptr);
    for (int64_t t = 0; t < steps; ++t) {
      std::vector<int64_t> added(batch, 1);
      if (draw(0, 4) == 0)
        for (auto& count : added) count = draw(0, 1);
      const bool with_mask = draw(0, 4) == 0;
      const bool is_one_call = run.extend(1, added, with_mask, nullptr);
      const auto longest = *std::max_element(run.lengths().begin(), run.lengths().end());
      const bool is_full = std::count(added.begin(), added.end(), 1) == batch;
      const bool is_masked = with_mask && run.cache().is_aligned();
      if (!drawn.has_scale) {
        EXPECT_EQ(is_one_call, drawn.is_planned && is_full && !is_masked && longest <= max_seq_len);
      }
      planned += is_one_call ? 1 : 0;
    }
    EXPECT_TRUE(
        equals_in_float64(run.found(), encoder, sequences,
                          [&](auto& exact, const Tensors& in) { return run.expected(exact, in); }));
  }
  EXPECT_GT(planned, 0);
}

// A hook that does nothing makes each block compute its own forward pass.
TEST_F(Plan, OtherDtypesEqualThePlainPathAndWeightFormatsTheirCopies) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  const auto in_steps = [](TransformerEncoder& encoder, const torch::Tensor& x,
                           AttentionHook* hook) {
    Steps run(encoder, x.unbind(), make_cache(encoder, x.size(0), x.size(1), 0));
    bool is_one_call = false;
    for (int64_t t = 0; t < x.size(1); ++t)
      is_one_call |= run.extend(1, std::vector<int64_t>(x.size(0), 1), false, hook);
    EXPECT_FALSE(is_one_call);
    return run.found();
  };
  for (const auto dtype : {torch::kBFloat16, torch::kDouble}) {
    auto encoder = make_encoder(draw_stack().options);
    encoder->to(dtype);
    const auto x = torch::randn({2, 4, encoder->options.block().attention().embed_dim()}).to(dtype);
    AttentionHook hook;
    EXPECT_TRUE(torch::equal(in_steps(encoder, x, nullptr), in_steps(encoder, x, &hook))) << dtype;
  }
  for (const auto format : {WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    TransformerBlockOptions block(512, 4);  // smaller weights have no copies
    block.attention().add(rotary());
    block.residual().norm(rms_norm());
    auto encoder = make_encoder(TransformerEncoderOptions(block, 2));
    bool has_copies = true;
    for (auto& parameter : encoder->parameters()) {
      if (parameter.dim() == 2) has_copies = prepare_weight(parameter, format) && has_copies;
    }
    EXPECT_TRUE(has_copies || format == WeightFormat::bf16);  // needs a processor with AVX512-BF16
    if (!has_copies) continue;
    const auto x = torch::randn({2, 3, 512});
    AttentionHook hook;
    SCOPED_TRACE(to_string(format));
    if (format == WeightFormat::bf16) {
      EXPECT_TRUE(torch::equal(in_steps(encoder, x, nullptr), in_steps(encoder, x, &hook)));
      continue;
    }
    Steps run(encoder, x.unbind(), make_cache(encoder, 2, 3, 0));
    for (int64_t t = 0; t < 3; ++t) EXPECT_TRUE(run.extend(1, {1, 1}, false, nullptr));
    TransformerEncoder exact(std::dynamic_pointer_cast<TransformerEncoderImpl>(encoder->clone()));
    exact->to(torch::kDouble);
    take_copies(*exact, *encoder);
    const auto in = in_float64(x.unbind());
    EXPECT_TRUE(within_rounding(
        run.found(), leaves_of(*exact, in), [&] { return run.expected(exact, in); },
        rounding_of_integers(/*terms=*/2048)));
  }
}

TEST_F(Plan, ReadsTheModulesInEachForwardPass) {
  const torch::NoGradGuard no_grad;
  TransformerBlockOptions block(8, 2);
  block.attention().add(rotary());
  auto encoder = make_encoder(TransformerEncoderOptions(block, 2));
  auto& first = encoder->blocks->at<TransformerBlockImpl>(0);
  auto& second = encoder->blocks->at<TransformerBlockImpl>(1);
  const auto x = torch::randn({1, 5, 8});
  Steps planned(encoder, x.unbind(), make_cache(encoder, 1, 5, 0));
  Steps plain(encoder, x.unbind(), make_cache(encoder, 1, 5, 0));
  AttentionHook hook;
  const auto equals_after = [&](const auto& change) {
    change();
    EXPECT_TRUE(planned.extend(1, {1}, false, nullptr));
    EXPECT_FALSE(plain.extend(1, {1}, false, &hook));
    return close(planned.found(), plain.found(), 1e-5);
  };
  EXPECT_TRUE(equals_after([] {}));
  EXPECT_TRUE(equals_after([&] { second.attention->qkv->weight.mul_(2); }));
  EXPECT_TRUE(equals_after([&] { second.attention->out = torch::nn::Linear(8, 8); }));
  EXPECT_TRUE(
      equals_after([&] { first.feed_forward = torch::nn::AnyModule(torch::nn::Linear(8, 8)); }));
  first.attention->train();
  first.attention->options.dropout(0.5);
  EXPECT_FALSE(planned.extend(1, {1}, false, nullptr));
}

}  // namespace
}  // namespace attend
