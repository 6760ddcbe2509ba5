#include "attend/arg.h"

#include "attend/nn/rotary.h"
#include "attend/nn/transformer_encoder.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace attend {
namespace {

struct Inner {
  ATTEND_ARG(int, size) = 1;
  ATTEND_ARG(std::vector<int>, list);
};
struct Outer {
  ATTEND_NESTED_ARG(Inner, inner);
  ATTEND_ARG(std::optional<double>, rate);
};

TEST(Arg, SettersOfAnObjectReturnTheObject) {
  Inner inner;
  EXPECT_EQ(&inner.size(3).list({1, 2}), &inner);
  EXPECT_EQ(inner.size(), 3);
  inner.size() = 4;
  EXPECT_EQ(inner.size(), 4);
}

TEST(Arg, SettersOfATemporaryReturnAValue) {
  static_assert(std::is_same_v<decltype(Inner().size(3)), Inner>);
  static_assert(std::is_same_v<decltype(Inner().list()), std::vector<int>>);
  static_assert(std::is_same_v<decltype(Outer().inner().size(2)), Inner>);
  const auto& inner = Inner().size(3).list({4, 5});
  EXPECT_EQ(inner.size(), 3);
  int sum = 0;
  for (const auto number : Outer().inner(Inner().list({4, 5})).inner().list()) sum += number;
  EXPECT_EQ(sum, 9);
}

TEST(Arg, NestedOptionsAreChangedByAFunction) {
  const auto& outer = Outer().inner([](auto& inner) { inner.size(7).list({1}); }).rate(0.5);
  EXPECT_EQ(outer.inner().size(), 7);
  EXPECT_EQ(outer.rate(), 0.5);
  Outer object;
  EXPECT_EQ(&object.inner([](Inner& inner) { inner.size(8); }), &object);
  EXPECT_EQ(object.inner().size(), 8);
  EXPECT_EQ(object.inner(Inner().size(9)).inner().size(), 9);
}

TEST(Arg, OptionsOfAStackAreOneExpression) {
  const auto& options =
      TransformerEncoderOptions(
          TransformerBlockOptions(16, 4)
              .attention([](auto& attention) { attention.num_kv_heads(2).add(rotary()); })
              .feed_forward([](auto& feed_forward) { feed_forward.dim_feedforward(24); })
              .residual([](auto& residual) { residual.dropout(0.25); }),
          3)
          .final_norm(false);
  const TransformerEncoder encoder(options);
  const auto& block = options.block();
  EXPECT_EQ(block.attention().num_kv_heads(), 2);
  EXPECT_EQ(block.attention().hooks().size(), 1U);
  EXPECT_EQ(block.feed_forward().dim_feedforward(), 24);
  EXPECT_EQ(block.residual().dropout(), 0.25);
  EXPECT_EQ(encoder(torch::zeros({2, 5, 16})).sizes(), at::IntArrayRef({2, 5, 16}));
}

}  // namespace
}  // namespace attend
