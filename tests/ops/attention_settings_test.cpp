// Each argument and option of attention, alone and combined.
#include "attend/ops/attention.h"
#include "support/attention_cases.h"
#include "support/close.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"

namespace attend {
namespace {

/// Calls attention without and with `need_weights`, and compares each result to the reference in
/// plain loops. Attention can use the fused kernel only without `need_weights`.
void expect_matches_reference(const AttentionCall& call) {
  const auto fused = call.run(/*need_weights=*/false);
  const auto full = call.run(/*need_weights=*/true);
  EXPECT_EQ(fused.output.scalar_type(), call.query.scalar_type());
  EXPECT_TRUE(equals_in_float64(
      {fused.output, full.output, full.weights},
      {call.query, call.key, call.value, call.args.mask, call.options.sinks},
      [&](const Tensors& in) -> Tensors {
        AttentionCall exact{in[0], in[1], in[2], call.args, call.options};
        exact.args.mask = in[3];
        exact.options.sinks = in[4];
        const auto [y, weights] =
            attention_in_loops(exact.query, exact.key, exact.value, exact.args, exact.options);
        return {y, y, weights};
      }));
}

struct SingleAttentionSetting : testing::TestWithParam<AttentionSetting> {};

INSTANTIATE_TEST_SUITE_P(, SingleAttentionSetting, testing::ValuesIn(attention_settings()),
                         [](const auto& test) { return test.param.name; });

TEST_P(SingleAttentionSetting, MatchesReference) {
  seed_afresh();
  for (int i = 0; i < 20; ++i) {
    const auto sizes = draw_sizes();
    auto call = draw_call(sizes);
    GetParam().draw(call, sizes);
    SCOPED_TRACE(testing::Message() << "case " << i << call.query.sizes() << call.key.sizes());
    expect_matches_reference(call);
  }
}

TEST_P(SingleAttentionSetting, ChangesTheOutput) {
  torch::manual_seed(1);
  const AttentionSizes sizes{2, 2, 2, 5, 5};
  bool changed = false;
  for (int i = 0; i < 5 && !changed; ++i) {
    auto plain = draw_call(sizes);
    plain.args.causal = GetParam().name == "Positions";  // positions need a causal mask
    auto call = plain;
    GetParam().draw(call, sizes);
    changed = !torch::allclose(call.run(false).output, plain.run(false).output);
  }
  EXPECT_TRUE(changed);
}

TEST(AttentionSettings, CombinedMatchReference) {
  seed_afresh();
  for (int i = 0; i < 150; ++i) {
    const auto sizes = draw_sizes();
    auto call = draw_call(sizes);
    draw_settings(call, sizes);
    SCOPED_TRACE(testing::Message() << "case " << i << call.query.sizes() << call.key.sizes());
    expect_matches_reference(call);
  }
}

TEST(AttentionSettings, WorkWithEmptyBatchQueriesOrKeys) {
  torch::manual_seed(2);
  for (const auto& setting : attention_settings()) {
    for (const AttentionSizes sizes : {AttentionSizes{0, 2, 2, 3, 3}, AttentionSizes{2, 4, 2, 0, 3},
                                       AttentionSizes{2, 2, 1, 3, 0}, AttentionSizes{0, 2, 1, 0, 0},
                                       AttentionSizes{2, 2, 1, 1, 0}}) {
      auto call = draw_call(sizes);
      setting.draw(call, sizes);
      SCOPED_TRACE(testing::Message() << setting.name << call.query.sizes() << call.key.sizes());
      expect_matches_reference(call);
    }
  }
}

TEST(AttentionSettings, WorkInAllFloatDtypes) {
  seed_afresh();
  for (const auto dtype : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    for (int i = 0; i < 20; ++i) {
      const auto sizes = draw_sizes();
      auto call = draw_call(sizes);
      draw_settings(call, sizes);
      for (auto* x : {&call.query, &call.key, &call.value}) *x = x->to(dtype);
      if (call.args.mask.defined() && call.args.mask.is_floating_point()) {
        call.args.mask = call.args.mask.to(dtype);
      }
      SCOPED_TRACE(testing::Message() << dtype << ", case " << i);
      expect_matches_reference(call);
    }
  }
}

TEST(AttentionSettings, WorkOnStridedAndExpandedTensors) {
  seed_afresh();
  for (int i = 0; i < 20; ++i) {
    const auto sizes = draw_sizes();
    auto call = draw_call(sizes);
    draw_settings(call, sizes);
    call.query = call.query.transpose(1, 2).contiguous().transpose(1, 2);
    call.key = call.key.transpose(-2, -1).contiguous().transpose(-2, -1);
    call.value = call.value.narrow(1, 0, 1).expand(call.value.sizes());
    for (auto* tokens : {&call.args.key_mask, &call.args.segments, &call.args.positions}) {
      if (tokens->defined()) *tokens = tokens->t().contiguous().t();
    }
    expect_matches_reference(call);
  }
}

TEST(AttentionSettings, WorkWithoutBatchDimension) {
  seed_afresh();
  for (int i = 0; i < 20; ++i) {
    auto sizes = draw_sizes();
    sizes.batch = 1;
    auto call = draw_call(sizes);
    draw_settings(call, sizes);
    call.args.mask.reset();
    const auto batched = call;
    for (auto* x : {&call.query, &call.key, &call.value}) *x = x->squeeze(0);  // (H, T, D)
    auto& args = call.args;
    for (auto* tokens : {&args.key_mask, &args.segments, &args.key_segments, &args.positions}) {
      if (tokens->defined()) *tokens = tokens->squeeze(0);  // (T) or (S)
    }
    expect_matches_reference(call);
    EXPECT_TRUE(within_rounding(call.run(false).output, {call.query, call.key, call.value},
                                [&] { return batched.run(true).output[0]; }));
  }
}

TEST(AttentionSettings, WorkWithoutHeadDimension) {
  seed_afresh();
  for (int i = 0; i < 20; ++i) {
    auto sizes = draw_sizes();
    sizes.heads = sizes.groups = 1;
    auto call = draw_call(sizes);
    draw_settings(call, sizes);
    call.args.mask.reset();
    call.options.sinks.reset();
    for (auto* x : {&call.query, &call.key, &call.value}) *x = x->squeeze(1);  // (B, T, D)
    expect_matches_reference(call);
  }
}

TEST(AttentionSettings, AverageWeightsIsTheMeanOverHeads) {
  torch::manual_seed(3);
  const auto call = draw_call({2, 4, 2, 3, 5});
  const AttentionArgs args{.need_weights = true, .average_attn_weights = true};
  const auto averaged = attend::dot_product_attention(call.query, call.key, call.value, args);
  EXPECT_EQ(averaged.weights.sizes(), at::IntArrayRef({2, 3, 5}));
  EXPECT_TRUE(close(averaged.weights, call.run(true).weights.mean(1), 1e-15));
}

}  // namespace
}  // namespace attend
