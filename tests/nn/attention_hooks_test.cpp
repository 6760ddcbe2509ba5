// Properties that all attention hooks must have; each hook also has its own test file.
#include "attend/nn/attention_sinks.h"
#include "attend/nn/output_gate.h"
#include "attend/nn/qk_norm.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/smeared_keys.h"
#include "attend/nn/soft_cap.h"
#include "attend/nn/value_residual.h"
#include "support/gradient.h"
#include "support/heads.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/trace.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

struct AttentionHooks : FixedSeed, testing::TestWithParam<AttentionHookFactory> {
  /// Four query heads, two key-value heads.
  static MultiheadAttentionOptions options() {
    return MultiheadAttentionOptions(8, 4).num_kv_heads(2).head_dim(3).add(GetParam());
  }

  /// Runs a stack of two layers. Both layers are `attention`.
  static torch::Tensor run(MultiheadAttention attention, const torch::Tensor& x,
                           const AttentionArgs& args = {.causal = true}) {
    torch::Tensor first_values;
    ForwardState state;
    state.first_values = &first_values;
    const auto h = attention->forward(x, args, state).output;
    return attention->forward(h, args, state).output;
  }
};

TEST_P(AttentionHooks, AreRegisteredAsSubmodules) {
  const MultiheadAttention attention(options());
  EXPECT_TRUE(attention->named_children().contains(GetParam().name));
}

TEST_P(AttentionHooks, GradientsEqualFiniteDifferences) {
  auto attention = randomized_attention(
      MultiheadAttentionOptions(3, 2).num_kv_heads(1).head_dim(2).add(GetParam()));
  auto leaves = attention->parameters();
  const auto x = torch::randn({2, 3, 3}, torch::kDouble).requires_grad_();
  leaves.push_back(x);
  EXPECT_TRUE(gradients_match([&] { return run(attention, x); }, leaves));
}

TEST_P(AttentionHooks, TraceGeneralizesToOtherSizes) {
  auto attention = randomized_attention(options());
  freeze(*attention);
  const auto run_traced = [&](const Tensors& x) { return run(attention, x[0]); };
  const auto traced = trace(run_traced, {torch::randn({2, 3, 8}, torch::kDouble)});
  for (const auto& x : {torch::randn({1, 7, 8}), torch::randn({3, 1, 8})}) {
    const auto input = x.to(torch::kDouble);
    EXPECT_TRUE(close(traced({input}), run(attention, input), 1e-12)) << x.sizes();
  }
}

TEST_P(AttentionHooks, CloneAndSaveLoadRoundTrip) {
  const auto x = torch::randn({2, 5, 8}, torch::kDouble);
  const auto run_it = [&](const MultiheadAttention& module) { return run(module, x); };
  expect_clone_and_save_load_work(randomized_attention(options()), randomized_attention(options()),
                                  run_it);
}

TEST_P(AttentionHooks, SupportAllFloatDtypes) {
  MultiheadAttention attention(options());
  const auto x = torch::randn({2, 5, 8});
  const auto expected = run(attention, x);
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    attention->to(dtype);
    const auto y = run(attention, x.to(dtype));
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(close(y, expected, 0.03)) << dtype;
  }
}

TEST_P(AttentionHooks, SupportUnbatchedAndStridedInputs) {
  auto attention = randomized_attention(options());
  const auto x = torch::randn({3, 5, 8}, torch::kDouble);
  const auto expected = run(attention, x);
  EXPECT_TRUE(close(run(attention, x[1]), expected[1], 1e-12));
  EXPECT_TRUE(close(run(attention, x.narrow(1, 0, 1)), expected.narrow(1, 0, 1), 1e-12));
  const auto strided = x.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
  EXPECT_TRUE(close(run(attention, strided), expected, 1e-12));
  EXPECT_TRUE(close(run(attention, x[2].expand({4, 5, 8})), expected[2].expand({4, 5, 8}), 1e-12));
}

TEST_P(AttentionHooks, SupportEmptyBatchAndEmptySequence) {
  auto attention = randomized_attention(options());
  for (const auto& shape : {std::vector<int64_t>{0, 5, 8}, {3, 0, 8}, {0, 8}}) {
    EXPECT_EQ(run(attention, torch::zeros(shape, torch::kDouble)).sizes(), at::IntArrayRef(shape));
  }
}

TEST_P(AttentionHooks, FullyMaskedRowsGiveZeros) {
  auto attention = randomized_attention(options().bias(false));
  auto mask = torch::ones({5, 5}, torch::kBool);
  mask[2].fill_(false);
  const auto x = torch::randn({2, 5, 8}, torch::kDouble).requires_grad_();
  const auto y = run(attention, x, {.mask = mask});
  EXPECT_TRUE(close(y.select(1, 2), torch::zeros({2, 8}), 0.0));
  y.sum().backward();
  for (const auto& leaf : attention->parameters()) {
    EXPECT_TRUE(leaf.grad().isfinite().all().item<bool>());
  }
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(All, AttentionHooks,
                         testing::Values(qk_norm(), qk_norm(layer_norm()), output_gate(),
                                         output_gate(GateWidth::element), attention_sinks(),
                                         soft_cap(1.5), sliding_window(2), smeared_keys(),
                                         value_residual()),
                         [](const auto& info) {
                           return info.param.name + "_" + std::to_string(info.index);
                         });

}  // namespace
}  // namespace attend
