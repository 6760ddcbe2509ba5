// Properties of all position schemes as modules: serialization, dtypes, traces, edge cases.
#include "attend/nn/multihead_attention.h"
#include "nn/position_hooks.h"
#include "support/modules.h"
#include "support/trace.h"

namespace attend {
namespace {

struct PositionHookModule : PositionHook {};

INSTANTIATE_TEST_SUITE_P(All, PositionHookModule, testing::ValuesIn(position_cases()),
                         name_of_case);

MultiheadAttention attention_with(const PositionCase& scheme) {
  return MultiheadAttention(
      MultiheadAttentionOptions(8, 4).num_kv_heads(2).head_dim(6).add(scheme.part));
}

TEST_P(PositionHookModule, CloneAndSaveLoadRoundTrip) {
  const auto x = torch::randn({2, 3, 8});
  const auto run = [&](MultiheadAttention module) {
    return module->forward(x, {.causal = true}).output;
  };
  expect_clone_and_save_load_work(attention_with(GetParam()), attention_with(GetParam()), run);
}

TEST_P(PositionHookModule, SupportsAllFloatDtypes) {
  const torch::NoGradGuard no_grad;
  auto attention = attention_with(GetParam());
  const auto x = torch::randn({2, 3, 8});
  // Half dtypes cannot represent these large positions exactly.
  const AttentionArgs args{.positions = torch::arange(5001, 5004), .causal = true};
  const auto expected = attention->forward(x, args).output;
  for (const auto dtype : {torch::kBFloat16, torch::kHalf, torch::kDouble}) {
    MultiheadAttention copy(std::dynamic_pointer_cast<MultiheadAttentionImpl>(attention->clone()));
    copy->to(dtype);
    const auto y = copy->forward(x.to(dtype), args).output;
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(close(y, expected, 0.03)) << dtype;
  }
}

TEST_P(PositionHookModule, SupportsExpandedAndEmptyInputs) {
  auto attention = attention_with(GetParam());
  const auto x = torch::randn({2, 3, 8});
  const auto y = attention->forward(x, {.causal = true}).output;
  EXPECT_TRUE(close(attention->forward(x[0], {.causal = true}).output, y[0], 1e-6));
  EXPECT_TRUE(
      close(attention->forward(x[0].expand({2, 3, 8}), {.causal = true}).output[1], y[0], 1e-6));
  for (const auto& empty : {torch::zeros({0, 3, 8}), torch::zeros({2, 0, 8})}) {
    EXPECT_EQ(attention->forward(empty).output.sizes(), empty.sizes());
  }
  EXPECT_TRUE(close(attention->forward(x.narrow(1, 0, 1)).output, y.narrow(1, 0, 1), 1e-6));
}

TEST_P(PositionHookModule, TraceGeneralizesToOtherSizes) {
  auto attention = attention_with(GetParam());
  freeze(*attention);
  for (const bool causal : {false, true}) {
    for (const bool need_weights : {false, true}) {
      const auto run = [&](const Tensors& x) {
        const auto y = attention->forward(x[0], {.causal = causal, .need_weights = need_weights});
        return need_weights ? y.weights : y.output;
      };
      const auto traced = trace(run, {torch::randn({2, 3, 8})});
      for (const auto& x : {torch::randn({1, 150, 8}), torch::randn({3, 1, 8})}) {
        EXPECT_TRUE(close(traced({x}), run({x}), 1e-6)) << x.sizes();
      }
    }
  }
}

TEST_P(PositionHookModule, TraceGeneralizesToOtherPositions) {
  auto attention = attention_with(GetParam());
  freeze(*attention);
  const auto run = [&](const Tensors& x) {
    return attention->forward(x[0], {.positions = x[1], .causal = true, .sliding_window = 30})
        .output;
  };
  const auto inputs = [](int64_t b, int64_t t) -> Tensors {
    return {torch::randn({b, t, 8}), torch::randint(90, {b, t}, torch::kLong)};
  };
  const auto traced = trace(run, inputs(2, 3));
  for (const auto& other : {inputs(1, 7), inputs(4, 1)}) {
    EXPECT_TRUE(close(traced(other), run(other), 1e-6));
  }
}

}  // namespace
}  // namespace attend
