#include "attend/nn/value_residual.h"

#include "support/heads.h"
#include "support/modules.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

/// Reference: own + mix * (first - own), element by element.
torch::Tensor mixed(const torch::Tensor& own, const torch::Tensor& first, double mix) {
  auto result = own.clone();
  auto* numbers = result.data_ptr<double>();
  const auto* of_first = first.data_ptr<double>();
  for (int64_t i = 0; i < result.numel(); ++i) numbers[i] += mix * (of_first[i] - numbers[i]);
  return result;
}

torch::Tensor plain_attention(const MultiheadAttention& attention, const ProjectedHeads& heads,
                              const torch::Tensor& value) {
  const auto results = attention_in_loops(heads.query, heads.key, value, {.causal = true}).output;
  return join_heads(attention, results);
}

TEST(ValueResidual, MatchesReferenceInRandomThreeLayerStacks) {
  seed_afresh();
  const AttentionArgs causal{.causal = true};
  for (int i = 0; i < 10; ++i) {
    const auto options = draw_attention_options().add(value_residual());
    const auto x = torch::randn({2, draw(1, 5), options.embed_dim()}, torch::kDouble);
    torch::Tensor first_values;
    ForwardState state;
    state.first_values = &first_values;
    auto first = randomized_attention(options);
    auto h = first->forward(x, causal, state).output;
    EXPECT_TRUE(within_rounding(h, leaves_of(*first, {x}), [&] {
      const auto heads = project_heads(first, x);
      return plain_attention(first, heads, heads.value);
    }));
    for (int layer = 1; layer < 3; ++layer) {
      auto attention = randomized_attention(options);
      const auto previous = h.detach();
      h = attention->forward(previous, causal, state).output;
      const auto leaves = leaves_of(*attention, leaves_of(*first, {x, previous}));
      EXPECT_TRUE(within_rounding(h, leaves, [&] {
        const auto heads = project_heads(attention, previous);
        const auto mix = parameter_of(*attention, "value_residual.mix").item<double>();
        const auto value = mixed(heads.value, project_heads(first, x).value, mix);
        return plain_attention(attention, heads, value);
      }));
    }
  }
}

TEST(ValueResidual, IsInitializedToOneHalfWithKeyMix) {
  ValueResidual residual;
  EXPECT_THAT(state_names(*residual), testing::ElementsAre("mix"));
  EXPECT_TRUE(close(residual->mix, torch::full({}, 0.5), 0.0));
}

TEST(ValueResidual, PrettyPrintShowsTheName) {
  EXPECT_THAT(printed(*ValueResidual()), testing::StartsWith("attend::ValueResidual()"));
}

TEST(ValueResidualErrors, UseOutsideOfAStackThrows) {
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(value_residual()));
  const auto x = torch::zeros({2, 3, 8});
  const char* message = "value_residual requires ForwardState::first_values";
  EXPECT_THAT([&] { attention->forward(x); }, throws<c10::ValueError>(message));
  EXPECT_THAT([&] { attention->cross(x, x, x); }, throws<c10::ValueError>(message));
}

TEST(ValueResidualErrors, DifferentShapesThrow) {
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(value_residual()));
  auto first_values = torch::zeros({2, 2, 5, 4});
  ForwardState state;
  state.first_values = &first_values;
  EXPECT_THAT(
      [&] {
        attention->forward(torch::zeros({2, 3, 8}), {}, state);
      },
      throws<c10::ValueError>("the values of the first layer must have the shape of this layer's "
                              "values, [2, 2, 3, 4], found [2, 2, 5, 4]"));
}

}  // namespace
}  // namespace attend
