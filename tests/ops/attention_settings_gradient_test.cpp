// Gradients and traces of attention with all arguments and options.
#include "attend/ops/attention.h"
#include "support/attention_cases.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/trace.h"

namespace attend {
namespace {

TEST(AttentionSettingsGradient, MatchesFiniteDifferencesIncludingSinks) {
  seed_afresh();
  for (int i = 0; i < 12; ++i) {
    const auto sizes = draw_sizes();
    auto call = draw_call(sizes);
    draw_settings(call, sizes);
    SCOPED_TRACE(testing::Message() << "case " << i << call.query.sizes() << call.key.sizes());
    std::vector<torch::Tensor> leaves{call.query, call.key, call.value};
    if (call.options.sinks.defined()) leaves.push_back(call.options.sinks);
    for (auto& leaf : leaves) leaf.requires_grad_();
    for (const bool need_weights : {false, true}) {
      EXPECT_TRUE(gradients_match([&] { return call.run(need_weights).output; }, leaves));
    }
    EXPECT_TRUE(gradients_match([&] { return call.run(true).weights; }, leaves));
  }
}

/// Returns the tensors of a call, as inputs of a trace.
Tensors inputs_of(const AttentionCall& call) {
  const auto& args = call.args;
  return {call.query,    call.key,          call.value,     args.mask,          args.key_mask,
          args.segments, args.key_segments, args.positions, args.key_positions, call.options.sinks};
}

AttentionCall call_of(const Tensors& x, double soft_cap) {
  AttentionCall call{x[0], x[1], x[2]};
  call.args = {.mask = x[3],
               .key_mask = x[4],
               .segments = x[5],
               .key_segments = x[6],
               .positions = x[7],
               .key_positions = x[8],
               .causal = true,
               .sliding_window = 7};
  call.options = {.soft_cap = soft_cap};
  if (soft_cap > 0) call.options.sinks = x[9];
  return call;
}

Tensors draw_inputs(const AttentionSizes& sizes) {
  const auto [b, h, g, t, s, width] = sizes;
  auto call = draw_call(sizes);
  for (const auto& setting : attention_settings()) setting.draw(call, sizes);
  call.args.mask = torch::rand({b, 1, t, s}) > 0.2;
  return inputs_of(call);
}

TEST(AttentionSettingsTrace, GeneralizesToOtherSizes) {
  seed_afresh();
  for (const int64_t groups : {1, 2, 4}) {
    for (const double soft_cap : {0.0, 3.0}) {
      for (const bool need_weights : {false, true}) {
        const auto run = [&](const Tensors& x) {
          return call_of(x, soft_cap).run(need_weights).output;
        };
        const auto traced = trace(run, draw_inputs({2, 4, groups, 3, 3}));
        for (const AttentionSizes sizes :
             {AttentionSizes{1, 4, groups, 5, 6}, AttentionSizes{3, 4, groups, 1, 4},
              AttentionSizes{2, 4, groups, 6, 2}}) {
          const auto other = draw_inputs(sizes);
          EXPECT_TRUE(within_rounding(traced(other), other, [&] { return run(other); }))
              << groups << other[0].sizes();
        }
      }
    }
  }
}

TEST(AttentionSettingsTrace, CausalSlidingWindowGeneralizesToOtherLengths) {
  const auto run = [](const Tensors& x) {
    return attend::dot_product_attention(x[0], x[1], x[1], {.causal = true, .sliding_window = 2})
        .output;
  };
  const auto traced = trace(run, {torch::randn({1, 2, 3, 4}), torch::randn({1, 2, 3, 4})});
  for (const int64_t t : {1, 5}) {
    const Tensors other{torch::randn({2, 2, t, 4}), torch::randn({2, 2, 6, 4})};
    EXPECT_TRUE(close(traced(other), run(other), 1e-6)) << t;
  }
}

}  // namespace
}  // namespace attend
