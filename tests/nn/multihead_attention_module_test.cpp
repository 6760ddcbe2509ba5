// MultiheadAttention as a module: state dict, serialization, traces, errors.
#include "attend/nn/multihead_attention.h"
#include "support/modules.h"
#include "support/throws.h"
#include "support/trace.h"

#include <torch/nn/modules/container/any.h>

#include <cmath>

namespace attend {
namespace {

using Options = MultiheadAttentionOptions;

TEST(MultiheadAttentionModule, StateDictHasDocumentedKeys) {
  EXPECT_THAT(state_names(*MultiheadAttention(8, 2)),
              testing::ElementsAre("qkv.weight", "qkv.bias", "out.weight", "out.bias"));
  EXPECT_THAT(state_names(*MultiheadAttention(Options(8, 2).bias(false))),
              testing::ElementsAre("qkv.weight", "out.weight"));
}

TEST(MultiheadAttentionModule, CloneAndSaveLoadRoundTrip) {
  const auto options = Options(8, 2).head_dim(3);
  const auto x = torch::randn({2, 3, 8});
  const auto run = [&](MultiheadAttention module) {
    return module->forward(x, {.causal = true}).output;
  };
  expect_clone_and_save_load_work(MultiheadAttention(options), MultiheadAttention(options), run);
}

TEST(MultiheadAttentionModule, SupportsFloat64AndBfloat16) {
  MultiheadAttention attention(8, 2);
  for (const auto dtype : {torch::kDouble, torch::kBFloat16}) {
    attention->to(dtype);
    const auto [output, weights] = attention->forward(torch::randn({2, 3, 8}).to(dtype),
                                                      {.causal = true, .need_weights = true});
    EXPECT_EQ(output.scalar_type(), dtype);
    EXPECT_EQ(weights.scalar_type(), dtype);
  }
}

TEST(MultiheadAttentionModule, CanBeCalledThroughAnyModule) {
  MultiheadAttention attention(8, 2);
  torch::nn::AnyModule any(attention);
  const auto x = torch::randn({2, 3, 8});
  const auto y = any.forward<AttentionOutput>(x).output;
  EXPECT_TRUE(close(y, attention->forward(x).output, 0.0));
}

TEST(MultiheadAttentionModule, TraceGeneralizesToOtherSizes) {
  for (const auto& options : {Options(8, 2), Options(8, 3).head_dim(4).bias(false)}) {
    for (const bool causal : {false, true}) {
      for (const bool need_weights : {false, true}) {
        MultiheadAttention attention(options);
        freeze(*attention);
        const auto run = [&](const Tensors& x) {
          const auto y = attention->forward(x[0], {.causal = causal, .need_weights = need_weights});
          return need_weights ? y.weights : y.output;
        };
        const auto traced = trace(run, {torch::randn({2, 3, 8})});
        for (const auto& x : {torch::randn({1, 6, 8}), torch::randn({3, 1, 8})}) {
          EXPECT_TRUE(close(traced({x}), run({x}), 1e-6)) << x.sizes();
        }
      }
    }
  }
}

TEST(MultiheadAttentionModule, UnbatchedTraceGeneralizesToOtherLengths) {
  MultiheadAttention attention(8, 2);
  freeze(*attention);
  const auto run = [&](const Tensors& x) {
    return attention->forward(x[0], {.causal = true}).output;
  };
  const auto x = torch::randn({6, 8});
  EXPECT_TRUE(close(trace(run, {torch::randn({3, 8})})({x}), run({x}), 1e-6));
}

TEST(MultiheadAttentionModule, CrossAttentionTraceGeneralizesToOtherSizes) {
  MultiheadAttention attention(8, 2);
  freeze(*attention);
  const auto run = [&](const Tensors& x) {
    return attention->cross(x[0], x[1], x[1], {.mask = x[2]}).output;
  };
  const auto inputs = [](int64_t b, int64_t t, int64_t s) -> Tensors {
    return {torch::randn({b, t, 8}), torch::randn({b, s, 8}), torch::rand({b, 1, 1, s}) > 0.5};
  };
  const auto traced = trace(run, inputs(2, 3, 4));
  for (const auto& other : {inputs(1, 5, 2), inputs(3, 1, 6)}) {
    EXPECT_TRUE(close(traced(other), run(other), 1e-6)) << other[0].sizes();
  }
}

TEST(MultiheadAttentionModule, PrettyPrintShowsOptions) {
  EXPECT_THAT(
      printed(*MultiheadAttention(Options(8, 2).dropout(0.1))),
      testing::StartsWith("attend::MultiheadAttention(embed_dim=8, num_heads=2, num_kv_heads=2, "
                          "head_dim=4, bias=true, qkv_bias=true, dropout=0.1)"));
  EXPECT_THAT(printed(*MultiheadAttention(Options(8, 2).scale(0.5))),
              testing::HasSubstr("dropout=0, scale=0.5)"));
}

TEST(MultiheadAttentionErrors, OptionsOutOfRangeThrow) {
  EXPECT_THAT([] { MultiheadAttention(10, 3); },
              throws<c10::ValueError>("embed_dim (10) must be divisible by num_heads (3)"));
  EXPECT_THAT([] { MultiheadAttention(0, 1); },
              throws<c10::ValueError>("embed_dim (0) must be positive"));
  EXPECT_THAT([] { MultiheadAttention(8, 0); },
              throws<c10::ValueError>("num_heads (0) must be positive"));
  EXPECT_THAT([] { MultiheadAttention(Options(8, 2).head_dim(-4)); },
              throws<c10::ValueError>("head_dim (-4) must be positive"));
  EXPECT_THAT([] { MultiheadAttention(Options(8, 2).dropout(1.5)); },
              throws<c10::ValueError>("dropout (1.5) must be in [0, 1)"));
}

TEST(MultiheadAttentionErrors, HeadsAreNotABatchDimension) {
  MultiheadAttention attention(8, 4);
  const auto x = torch::zeros({5, 8});
  const auto valid = torch::ones({4, 5}, torch::kBool);
  EXPECT_THAT([&] { attention->forward(x, {.key_mask = valid}); },
              throws<c10::ValueError>("key_mask [4, 5] must be (5), one entry per token"));
  EXPECT_THAT([&] { attention->forward(x, {.positions = torch::arange(3)}); },
              throws<c10::ValueError>("positions [3] must be (5)"));
  EXPECT_THAT([&] { attention->cross(x, x, x, {.key_mask = valid}); },
              throws<c10::ValueError>("key_mask [4, 5] must be (5)"));
  EXPECT_THAT(
      [&] {
        attention->forward(torch::zeros({2, 3, 5, 8}));
      },
      throws<c10::ValueError>("expects (B, T, E) or (T, E) with E = 8, found [2, 3, 5, 8]"));
}

TEST(MultiheadAttentionErrors, InvalidHookThrows) {
  const AttentionHookFactory nothing{"nothing", [](const AttentionDims&) { return nullptr; }};
  EXPECT_THAT([&] { MultiheadAttention(Options(8, 2).add(nothing)); },
              throws<c10::TypeError>("hook nothing must be an AttentionHook, found null"));
  const AttentionHookFactory linear{
      "linear", [](const AttentionDims&) { return std::make_shared<torch::nn::LinearImpl>(2, 2); }};
  EXPECT_THAT([&] { MultiheadAttention(Options(8, 2).add(linear)); },
              throws<c10::TypeError>("hook linear must be an AttentionHook, found"));
  for (const std::string name : {"", "a.b"}) {
    const AttentionHookFactory misnamed{name, nothing.make};
    EXPECT_THAT([&] { MultiheadAttention(Options(8, 2).add(misnamed)); },
                throws_naming<c10::ValueError>("AttentionHookFactory::name", "'" + name + "'"));
  }
}

TEST(MultiheadAttentionErrors, ScaleThatIsNotFiniteThrows) {
  EXPECT_THAT([] { MultiheadAttention(MultiheadAttentionOptions(8, 2).scale(NAN)); },
              throws<c10::ValueError>("scale (nan) must be finite"));
}

TEST(MultiheadAttentionErrors, WrongShapesThrow) {
  MultiheadAttention attention(8, 2);
  EXPECT_THAT(
      [&] {
        attention->forward(torch::zeros({2, 3, 4}));
      },
      throws<c10::ValueError>("MultiheadAttention expects (B, T, E) or (T, E) with E = 8, "
                              "found [2, 3, 4]"));
  const auto x = torch::zeros({2, 3, 8});
  EXPECT_THAT(
      [&] {
        attention->cross(x, x, torch::zeros({2, 3, 9}));
      },
      throws<c10::ValueError>("found [2, 3, 9]"));
  EXPECT_THAT(
      [&] {
        attention->cross(x, x, torch::zeros({2, 4, 8}));
      },
      throws<c10::ValueError>("key length (3) must equal value length (4)"));
  EXPECT_THAT(
      [&] {
        attention->forward(x, {.mask = torch::ones({2, 3, 3}).to(torch::kLong)});
      },
      throws<c10::TypeError>(
          "mask must be bool (true = may attend) or float (added to the scores)"));
}

TEST(MultiheadAttention, QkvBiasIsIndependentOfTheOutputBias) {
  const auto options = MultiheadAttentionOptions(8, 2).bias(false).qkv_bias(true);
  EXPECT_THAT(state_names(*MultiheadAttention(options)),
              testing::ElementsAre("qkv.weight", "qkv.bias", "out.weight"));
  EXPECT_THAT(state_names(*MultiheadAttention(MultiheadAttentionOptions(options).kdim(4))),
              testing::ElementsAre("query.weight", "query.bias", "key.weight", "key.bias",
                                   "value.weight", "value.bias", "out.weight"));
  EXPECT_THAT(printed(*MultiheadAttention(options)),
              testing::HasSubstr("bias=false, qkv_bias=true"));
}

}  // namespace
}  // namespace attend
