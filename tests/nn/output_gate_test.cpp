#include "attend/nn/output_gate.h"

#include "support/heads.h"
#include "support/modules.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

/// Reference: multiplies the heads' outputs (B, H, T, D) by their gates. The shape of `weight` is
/// (H, E) or (H * D, E).
torch::Tensor gated(const torch::Tensor& results, const torch::Tensor& x,
                    const torch::Tensor& weight) {
  auto result = results.clone();
  auto numbers = result.accessor<double, 4>();
  const int64_t gates_per_head = weight.size(0) / result.size(1);
  for (int64_t b = 0; b < result.size(0); ++b) {
    for (int64_t h = 0; h < result.size(1); ++h) {
      for (int64_t t = 0; t < result.size(2); ++t) {
        for (int64_t d = 0; d < result.size(3); ++d) {
          const int64_t gate = h * gates_per_head + (gates_per_head == 1 ? 0 : d);
          const auto logit = (weight[gate] * x[b][t]).sum().item<double>();
          numbers[b][h][t][d] /= 1.0 + std::exp(-logit);
        }
      }
    }
  }
  return result;
}

TEST(OutputGate, MatchesReferenceInRandomCases) {
  seed_afresh();
  for (const auto width : {GateWidth::head, GateWidth::element}) {
    for (int i = 0; i < 5; ++i) {
      auto attention = randomized_attention(draw_attention_options().add(output_gate(width)));
      const auto x = torch::randn({2, draw(1, 4), attention->options.embed_dim()}, torch::kDouble);
      const auto in_loops = [&] {
        const auto [q, k, v] = project_heads(attention, x);
        const auto results = attention_in_loops(q, k, v).output;
        const auto weight = parameter_of(*attention, "output_gate.projection.weight");
        return join_heads(attention, gated(results, x, weight));
      };
      EXPECT_TRUE(
          within_rounding(attention->forward(x).output, leaves_of(*attention, {x}), in_loops));
    }
  }
}

TEST(OutputGate, ZeroWeightsHalveTheOutput) {
  const auto options = MultiheadAttentionOptions(8, 2).bias(false);
  auto gated_attention = MultiheadAttention(MultiheadAttentionOptions(options).add(output_gate()));
  auto plain = MultiheadAttention(options);
  const torch::NoGradGuard no_grad;
  plain->qkv->weight.copy_(gated_attention->qkv->weight);
  plain->out->weight.copy_(gated_attention->out->weight);
  gated_attention->named_parameters()["output_gate.projection.weight"].zero_();
  const auto x = torch::randn({2, 5, 8});
  EXPECT_TRUE(close(gated_attention->forward(x).output, plain->forward(x).output / 2, 1e-6));
}

TEST(OutputGate, GateOfCrossAttentionIsComputedFromTheQueryInput) {
  auto attention = randomized_attention(MultiheadAttentionOptions(8, 2).add(output_gate()));
  const auto x = torch::randn({2, 3, 8}, torch::kDouble);
  const auto memory = torch::randn({2, 5, 8}, torch::kDouble);
  EXPECT_EQ(attention->cross(x, memory, memory).output.sizes(), x.sizes());
  EXPECT_TRUE(close(attention->cross(x, x, x).output, attention->forward(x).output, 1e-12));
}

TEST(OutputGate, StateDictHasDocumentedKeys) {
  const AttentionDims shape{8, 4, 2, 3};
  EXPECT_THAT(state_names(*OutputGate(shape, GateWidth::head)),
              testing::ElementsAre("projection.weight"));
  EXPECT_EQ(OutputGate(shape, GateWidth::head)->projection->weight.sizes(),
            at::IntArrayRef({4, 8}));
  EXPECT_EQ(OutputGate(shape, GateWidth::element)->projection->weight.sizes(),
            at::IntArrayRef({12, 8}));
}

TEST(OutputGate, PrettyPrintShowsWidth) {
  EXPECT_THAT(printed(*OutputGate(AttentionDims{8, 4, 2, 3}, GateWidth::element)),
              testing::StartsWith("attend::OutputGate(width=element)"));
}

TEST(OutputGateErrors, NonPositiveNumHeadsThrows) {
  EXPECT_THAT(
      [] {
        OutputGate(AttentionDims{8, 0, 1, 4}, GateWidth::head);
      },
      throws<c10::ValueError>("num_heads (0) must be positive"));
}

}  // namespace
}  // namespace attend
