// Tests of StackConfig. The tests of EachStack run for each option of a stack, and for some
// combinations of options.
#include "attend/models/stack_config.h"

#include "attend/models/language_model.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/sliding_window.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/throws.h"
#include "support/trace.h"

#include <limits>

namespace attend {
namespace {

struct EachStack : FixedSeed, testing::TestWithParam<NamedStack> {
  /// Returns an encoder with noise added to its parameters, since initial values of 0 or 1 would
  /// hide errors.
  TransformerEncoder randomized_encoder() const {
    TransformerEncoder encoder(encoder_options(GetParam().config, true));
    initialize(*encoder, GetParam().config);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : encoder->parameters())
      parameter.add_(0.3 * torch::randn_like(parameter));
    return encoder;
  }

  LanguageModel randomized_model() const {
    LanguageModel model(
        LanguageModelConfig{.vocab_size = 11, .max_seq_len = 12, .stack = GetParam().config});
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.add_(0.3 * torch::randn_like(parameter));
    return model;
  }
};

INSTANTIATE_TEST_SUITE_P(, EachStack, testing::ValuesIn(each_stack()), NameOfStack());

TEST_P(EachStack, OutputHasTheShapeOfBatchedUnbatchedAndEmptyInput) {
  auto encoder = randomized_encoder();
  for (const auto& x : {torch::randn({2, 5, 16}), torch::randn({5, 16}), torch::randn({0, 5, 16}),
                        torch::randn({2, 0, 16}), torch::randn({2, 1, 16})}) {
    EXPECT_EQ(encoder->forward(x, {.causal = true}).sizes(), x.sizes());
  }
  const auto x = torch::randn({2, 5, 16});
  EXPECT_TRUE(close(encoder->forward(x[1]), encoder->forward(x)[1], 1e-5));
}

TEST_P(EachStack, GradientsEqualFiniteDifferences) {
  auto config = GetParam().config;
  config.embed_dim = 8;
  config.dim_feedforward = 3;
  config.num_layers = std::min<int64_t>(config.num_layers, 2);
  TransformerEncoder encoder(encoder_options(config, true));
  encoder->to(torch::kDouble);
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : encoder->parameters()) {
      parameter.add_(0.4 * torch::randn_like(parameter));
    }
  }
  auto leaves = encoder->parameters();
  leaves.push_back(torch::randn({2, 3, 8}, torch::kDouble).requires_grad_());
  const auto key_mask = torch::tensor({{true, true, true}, {true, true, false}});
  EXPECT_TRUE(gradients_match(
      [&] { return encoder->forward(leaves.back(), {.key_mask = key_mask, .causal = true}); },
      leaves));
}

TEST_P(EachStack, GradientCheckpointingGivesTheSameGradients) {
  auto config = GetParam().config;
  config.dropout = 0.3;
  const auto x = torch::randn({2, 5, 16}, torch::kDouble);
  const auto upstream = torch::randn_like(x);
  const auto gradients = [&](bool checkpointing) {
    config.gradient_checkpointing = checkpointing;
    torch::manual_seed(1);
    TransformerEncoder encoder(encoder_options(config, true));
    encoder->to(torch::kDouble);
    const auto y = encoder->forward(x, {.causal = true});
    ((y * upstream).sum() + 3.0 * router_aux_loss(*encoder)).backward();
    return encoder->named_parameters();
  };
  const auto expected = gradients(false);
  for (const auto& item : gradients(true)) {
    const auto& gradient = expected[item.key()].grad();
    ASSERT_EQ(item.value().grad().defined(), gradient.defined()) << item.key();
    if (gradient.defined()) {
      EXPECT_TRUE(close(item.value().grad(), gradient, 1e-10)) << item.key();
    }
  }
}

TEST_P(EachStack, CloneAndSaveLoadRoundTrip) {
  if (GetParam().config.num_layers == 0)
    GTEST_SKIP() << "without layers, no parameter has random initial values";
  const auto x = torch::randn({2, 5, 16});
  TransformerEncoder fresh(encoder_options(GetParam().config, true));
  expect_clone_and_save_load_work(randomized_encoder(), fresh, [&](TransformerEncoder module) {
    return module->forward(x, {.causal = true});
  });
}

TEST_P(EachStack, TraceGeneralizesToOtherSizes) {
  auto encoder = randomized_encoder();
  freeze(*encoder);
  const auto run = [&](const Tensors& in) {
    return encoder->forward(in[0], {.key_mask = in[1], .causal = true});
  };
  const auto inputs = [](int64_t b, int64_t t) -> Tensors {
    return {torch::randn({b, t, 16}), torch::rand({b, t}) > 0.3};
  };
  const auto traced = trace(run, inputs(2, 3));
  for (const auto& other : {inputs(1, 9), inputs(3, 1), inputs(4, 12)}) {
    EXPECT_TRUE(close(traced(other), run(other), 1e-5)) << other[0].sizes();
  }
}

TEST_P(EachStack, SupportsAllFloatDtypes) {
  auto encoder = randomized_encoder();
  const auto x = torch::randn({2, 5, 16}, torch::kDouble);
  encoder->to(torch::kDouble);
  const auto expected = encoder->forward(x, {.causal = true});
  for (const auto dtype : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    encoder->to(dtype);
    const auto y = encoder->forward(x.to(dtype), {.causal = true});
    EXPECT_EQ(y.scalar_type(), dtype);
    const auto error = (y.to(torch::kDouble) - expected).norm() / expected.norm();
    EXPECT_LT(error.item<double>(), 0.05) << dtype;
  }
}

TEST_P(EachStack, FullyMaskedRowsStayFinite) {
  auto encoder = randomized_encoder();
  const auto x = torch::randn({2, 5, 16}).requires_grad_();
  auto key_mask = torch::ones({2, 5}, torch::kBool);
  key_mask[1].fill_(false);
  const auto y = encoder->forward(x, {.key_mask = key_mask, .causal = true});
  y.square().sum().backward();
  EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
}

TEST_P(EachStack, PaddingHasNoEffect) {
  auto encoder = randomized_encoder();
  const auto x = torch::randn({2, 5, 16});
  const auto padded = torch::cat({x, torch::randn({2, 3, 16})}, 1);
  auto key_mask = torch::ones({2, 8}, torch::kBool);
  key_mask.slice(1, 5).fill_(false);
  const auto y = encoder->forward(padded, {.key_mask = key_mask}).slice(1, 0, 5);
  EXPECT_TRUE(close(y, encoder->forward(x), 1e-5));
}

TEST_P(EachStack, PackedDocumentsDoNotAttendToEachOther) {
  auto encoder = randomized_encoder();
  const auto x = torch::randn({1, 7, 16});
  const auto segments = torch::tensor({{0, 0, 0, 1, 1, 1, 1}});
  const auto y = encoder->forward(x, {.segments = segments, .causal = true});
  const auto alone = encoder->forward(x.slice(1, 3), {.causal = true});
  EXPECT_TRUE(close(y.slice(1, 3), alone, 1e-5));
  auto other = x.clone();
  other.slice(1, 3).normal_();
  const auto with_other = encoder->forward(other, {.segments = segments, .causal = true});
  // Rounding errors of an expert depend on the number of tokens that are routed to it.
  const double tolerance = GetParam().config.num_experts > 0 ? 1e-5 : 0.0;
  EXPECT_TRUE(close(with_other.slice(1, 0, 3), y.slice(1, 0, 3), tolerance));
}

TEST_P(EachStack, PrefillAndStepsWithKvCacheEqualForward) {
  auto model = randomized_model();
  model->to(torch::kDouble);
  model->eval();
  const torch::NoGradGuard no_grad;
  const auto tokens = torch::randint(0, 11, {2, 12}, torch::kLong);
  const auto whole = model(tokens);
  auto cache = model->make_cache(2);
  Tensors parts;
  int64_t begin = 0;
  for (const int64_t length : {5, 1, 1, 3, 1, 1}) {
    parts.push_back(model->step(tokens.narrow(1, begin, length), cache));
    begin += length;
  }
  EXPECT_TRUE(close(torch::cat(parts, 1), whole, 1e-10));
}

TEST_P(EachStack, StepsWithRowsOfDifferentLengthsEqualSingleRows) {
  auto model = randomized_model();
  model->to(torch::kDouble);
  model->eval();
  const torch::NoGradGuard no_grad;
  const auto tokens = torch::randint(0, 11, {2, 7}, torch::kLong);
  // In the first step, row 0 gets four tokens, and row 1 gets two tokens and two padding tokens. In
  // the second step, each row gets two tokens.
  const auto key_mask = torch::tensor({{true, true, true, true}, {true, true, false, false}});
  auto cache = model->make_cache(2);
  model->step(tokens.slice(1, 0, 4), cache, key_mask);
  const auto next = model->step(tokens.slice(1, 4, 6), cache);
  const auto first = model(tokens[0].slice(0, 0, 6)).slice(0, 4);
  const auto second =
      model(torch::cat({tokens[1].slice(0, 0, 2), tokens[1].slice(0, 4, 6)})).slice(0, 2);
  EXPECT_TRUE(close(next[0], first, 1e-10));
  EXPECT_TRUE(close(next[1], second, 1e-10));
}

TEST(StackConfig, CacheOfARollingWindowChecksMaxSeqLen) {
  LanguageModel model(LanguageModelConfig{
      .vocab_size = 11,
      .max_seq_len = 8,
      .stack = {.embed_dim = 16, .positions = PositionScheme::rotary, .sliding_window = 3}});
  EXPECT_THAT([&] { model->make_cache(1, std::numeric_limits<int64_t>::max()); },
              throws<c10::ValueError>("max_seq_len (9223372036854775807) must be at most"));
}

TEST(StackConfig, SlidingWindowModelStepsBeyondMaxSeqLen) {
  for (const auto positions :
       {PositionScheme::none, PositionScheme::sinusoidal, PositionScheme::rotary,
        PositionScheme::alibi, PositionScheme::relative}) {
    SCOPED_TRACE(to_string(positions));
    LanguageModelConfig config{.vocab_size = 11, .max_seq_len = 8};
    config.stack = {.num_layers = 2, .embed_dim = 16, .positions = positions, .sliding_window = 3};
    torch::manual_seed(1);
    LanguageModel model(config);
    config.max_seq_len = 30;
    torch::manual_seed(1);
    LanguageModel long_model(config);
    for (auto* each : {&model, &long_model}) {
      (*each)->to(torch::kDouble);
      (*each)->eval();
    }
    const torch::NoGradGuard no_grad;
    const auto tokens = torch::randint(0, 11, {2, 30}, torch::kLong);
    auto cache = model->make_cache(2);
    Tensors parts{model->step(tokens.slice(1, 0, 8), cache)};
    for (int64_t t = 8; t < 30; ++t) parts.push_back(model->step(tokens.narrow(1, t, 1), cache));
    EXPECT_TRUE(close(torch::cat(parts, 1), long_model(tokens), 1e-10));
  }
}

void expect_rejected(void (*change)(StackConfig&), const char* message) {
  StackConfig config;
  change(config);
  EXPECT_THAT([&] { TransformerEncoder{encoder_options(config, true)}; },
              throws<c10::ValueError>(message));
}

TEST(StackConfig, ActivationMayBeAFunction) {
  const FixedSeed seed;
  const auto logits = [](const FeedForwardActivation& activation) {
    torch::manual_seed(1);
    LanguageModel model(LanguageModelConfig{
        .vocab_size = 5, .stack = {.num_heads = 2, .embed_dim = 8, .activation = activation}});
    return model(torch::tensor({{1, 2, 3}}));
  };
  const auto silu = [](const torch::Tensor& x) { return x * x.sigmoid(); };
  EXPECT_TRUE(close(logits(silu), logits(Activation::silu), 1e-6));
  EXPECT_FALSE(close(logits(silu), logits(Activation::gelu), 1e-6));
}

TEST(StackConfig, NormTopkProbReachesTheExperts) {
  const StackConfig config{.num_experts = 3, .norm_topk_prob = false};
  EXPECT_FALSE(encoder_options(config, true).block().experts()->norm_topk_prob());
  EXPECT_TRUE(encoder_options({.num_experts = 3}, true).block().experts()->norm_topk_prob());
}

TEST(StackConfigErrors, MessagesNameOptionAndValue) {
  using C = StackConfig;
  expect_rejected([](C& c) { c.num_layers = -1; }, "layers (-1) must not be negative");
  expect_rejected([](C& c) { c.num_heads = 0; }, "heads (0) must be positive");
  expect_rejected([](C& c) { c.num_kv_heads = 3; },
                  "num_heads (4) must be divisible by num_kv_heads (3)");
  expect_rejected([](C& c) { c.num_experts_per_tok = 1; },
                  "num_experts_per_tok is set but has no effect unless num_experts is positive");
  expect_rejected([](C& c) { c.norm_topk_prob = false; },
                  "norm_topk_prob is set but has no effect unless num_experts is positive");
  expect_rejected([](C& c) { c.sliding_window = -2; }, "sliding_window (-2) must not be negative");
  expect_rejected([](C& c) { c.stochastic_depth = 1; }, "stochastic_depth (1) must be in [0, 1)");
  expect_rejected(
      [](C& c) {
        c.positions = PositionScheme::rotary;
        c.rotary.rotary_dim = 3;
      },
      "rotary_dim (3) must be even");
  expect_rejected(
      [](C& c) {
        c.positions = PositionScheme::rotary;
        c.rotary.rotary_dim = -2;
      },
      "rotary_dim (-2) must be even, positive and at most head_dim (16)");
  expect_rejected(
      [](C& c) {
        c.positions = PositionScheme::rotary;
        c.rotary.rotary_dim = 18;
      },
      "rotary_dim (18) must be even, positive and at most head_dim (16)");
  expect_rejected(
      [](C& c) {
        c.residual_scale = 0.5;
        c.branch_scale = BranchScale::rezero;
      },
      "residual_scale (0.5) must be 1 with branch_scale rezero");
  expect_rejected([](C& c) { c.rotary.scaling = RotaryScaling::ntk; },
                  "rotary_* is set but has no effect unless positions is rotary");
  expect_rejected([](C& c) { c.attention_scale = -1; }, "attention_scale (-1) must be positive");
  expect_rejected([](C& c) { c.attention_scale = NAN; }, "attention_scale (nan) must be positive");
  expect_rejected(
      [](C& c) {
        c.sliding_window_pattern = {3, -1};
      },
      "sliding_window_pattern (-1) must not be negative");
  expect_rejected(
      [](C& c) {
        c.sliding_window = 5;
        c.sliding_window_pattern = {3, 0};
      },
      "sliding_window (5) must be 0 with a sliding_window_pattern");
}

TEST(StackConfigErrors, FieldsWithoutEffectThrow) {
  using C = StackConfig;
  const auto rotary_with = [](RotaryScaling scaling) {
    C config;
    config.positions = PositionScheme::rotary;
    config.rotary.scaling = scaling;
    config.rotary.factor = scaling == RotaryScaling::none ? 1.0 : 2.0;
    return config;
  };
  struct Case {
    C config;
    void (*change)(C&);
    const char* message;
  };
  for (auto& [config, change, message] : std::vector<Case>{
           {C(), [](C& c) { c.relative_bias.num_buckets = 16; },
            "relative_attention_* is set but has no effect unless positions is relative"},
           {C(), [](C& c) { c.relative_bias.max_distance = 16; },
            "relative_attention_* is set but has no effect unless positions is "
            "relative"},
           {C(), [](C& c) { c.relative_attention_shared = true; },
            "relative_attention_shared is set but has no effect unless positions is relative"},
           {rotary_with(RotaryScaling::ntk), [](C& c) { c.rotary.original_max_seq_len = 8; },
            "rotary_original_max_seq_len is set but has no effect unless rotary_scaling is yarn or "
            "llama3"},
           {rotary_with(RotaryScaling::ntk), [](C& c) { c.rotary.low_freq_factor = 2; },
            "rotary_low_freq_factor is set but has no effect unless rotary_scaling is llama3"},
           {rotary_with(RotaryScaling::yarn), [](C& c) { c.rotary.high_freq_factor = 2; },
            "rotary_high_freq_factor is set but has no effect unless rotary_scaling is llama3"},
           {rotary_with(RotaryScaling::llama3), [](C& c) { c.rotary.beta_fast = 2; },
            "rotary_beta_fast is set but has no effect unless rotary_scaling is yarn"},
           {rotary_with(RotaryScaling::llama3), [](C& c) { c.rotary.beta_slow = 2; },
            "rotary_beta_slow is set but has no effect unless rotary_scaling is yarn"},
           {rotary_with(RotaryScaling::linear), [](C& c) { c.rotary.truncate = false; },
            "rotary_truncate is set but has no effect unless rotary_scaling is yarn"},
           {rotary_with(RotaryScaling::none), [](C& c) { c.rotary.attention_factor = 2; },
            "rotary_attention_factor is set but has no effect unless rotary_scaling is yarn"}}) {
    change(config);
    EXPECT_THAT([&] { TransformerEncoder{encoder_options(config, true)}; },
                throws<c10::ValueError>(message));
  }
}

/// Returns the attention hook `name` of block `layer`; null if the block has no such hook.
std::shared_ptr<torch::nn::Module> hook_of(const TransformerEncoder& encoder, std::size_t layer,
                                           const std::string& name) {
  const auto hooks = (*encoder->blocks)[layer]->as<TransformerBlock>()->attention->named_children();
  const auto* hook = hooks.find(name);
  return hook == nullptr ? nullptr : *hook;
}

TEST(StackConfig, SlidingWindowPatternRepeats) {
  StackConfig config{.num_layers = 5, .sliding_window_pattern = {7, 0}};
  TransformerEncoder encoder(encoder_options(config, true));
  for (std::size_t layer = 0; layer < 5; ++layer) {
    const auto hook = hook_of(encoder, layer, "sliding_window");
    ASSERT_EQ(hook != nullptr, layer % 2 == 0) << layer;
    if (hook) {
      EXPECT_EQ(hook->as<SlidingWindow>()->sliding_window, 7);
    }
  }
}

TEST(StackConfig, CacheOverwritesKeysOnlyIfAllLayersHaveAWindow) {
  StackConfig config{.num_layers = 2, .positions = PositionScheme::rotary};
  const auto window = [&](std::vector<int64_t> pattern) {
    config.sliding_window_pattern = std::move(pattern);
    return cache_options(config, 2, 1, 16).sliding_window();
  };
  EXPECT_EQ(window({}), 0);
  EXPECT_EQ(window({7, 0}), 0);
  EXPECT_EQ(window({7, 5}), 7);
}

TEST(StackConfig, SharedRelativeBiasHasOneTable) {
  StackConfig config{.num_layers = 3, .positions = PositionScheme::relative};
  for (const bool shared : {false, true}) {
    config.relative_attention_shared = shared;
    TransformerEncoder encoder(encoder_options(config, true));
    int tables = 0;
    for (const auto& parameter : encoder->named_parameters()) {
      tables += parameter.key().find("relative_bias") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(tables, shared ? 1 : 3);
  }
}

TEST(StackConfig, NormEpsReachesQKNorm) {
  StackConfig config{.qk_norm = QKNormKind::rms, .norm_eps = 0.25};
  TransformerEncoder encoder(encoder_options(config, true));
  const auto hook = hook_of(encoder, 1, "qk_norm");
  ASSERT_NE(hook, nullptr);
  for (const auto& child : hook->children()) {
    EXPECT_EQ(child->as<RMSNorm>()->options.eps(), 0.25);
  }
}

TEST(StackConfig, RelativePositionsAreUnidirectionalIfCausal) {
  for (const bool causal : {true, false}) {
    StackConfig config;
    config.positions = PositionScheme::relative;
    TransformerEncoder encoder(encoder_options(config, causal));
    const auto hooks = (*encoder->blocks)[0]->as<TransformerBlock>()->attention->named_children();
    EXPECT_EQ(hooks["relative_bias"]->as<RelativeBias>()->options.bidirectional, !causal);
  }
}

}  // namespace
}  // namespace attend
