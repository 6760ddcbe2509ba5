#include "attend/ops/pooling.h"

#include "support/close.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>

namespace attend {
namespace {

TEST(MeanPooling, IsTheMeanOfTheTokens) {
  const auto x = torch::tensor({{{1.0, 2.0}, {3.0, 6.0}, {5.0, 7.0}},  //
                                {{4.0, 0.0}, {8.0, 8.0}, {0.0, 1.0}}});
  const auto mask = torch::tensor({{true, false, true}, {false, true, false}});
  EXPECT_TRUE(close(mean_pooling(x, mask), torch::tensor({{3.0, 4.5}, {8.0, 8.0}}), 0.0));
  EXPECT_TRUE(close(mean_pooling(x[0], mask[0]), torch::tensor({3.0, 4.5}), 0.0));
  EXPECT_TRUE(close(mean_pooling(x), torch::tensor({{3.0, 5.0}, {4.0, 3.0}}), 1e-6));
}

TEST(MeanPooling, PaddingHasNoEffectOnValuesAndGradients) {
  const auto mask = torch::tensor({{true, true, false}});
  for (const double padding : {std::nan(""), HUGE_VAL, 1e20}) {
    const auto x = torch::tensor({{{1.0}, {2.0}, {padding}}}).requires_grad_();
    const auto y = mean_pooling(x, mask);
    EXPECT_TRUE(close(y, torch::tensor({{1.5}}), 0.0)) << padding;
    y.sum().backward();
    EXPECT_TRUE(close(x.grad(), torch::tensor({{{0.5}, {0.5}, {0.0}}}), 0.0)) << padding;
  }
}

TEST(MeanPooling, SequencesWithoutTokensGiveZeros) {
  EXPECT_TRUE(close(mean_pooling(torch::randn({2, 3, 4}), torch::zeros({2, 3}, torch::kBool)),
                    torch::zeros({2, 4}), 0.0));
  EXPECT_TRUE(close(mean_pooling(torch::randn({2, 0, 4})), torch::zeros({2, 4}), 0.0));
}

TEST(MeanPooling, TraceGeneralizesToOtherSizes) {
  const auto masked = [](const Tensors& in) { return mean_pooling(in[0], in[1]); };
  const auto plain = [](const Tensors& in) { return mean_pooling(in[0]); };
  const auto inputs = [](int64_t batch, int64_t length) {
    return Tensors{torch::randn({batch, length, 4}), torch::rand({batch, length}).gt(0.5)};
  };
  const auto other = inputs(3, 7);
  EXPECT_TRUE(close(trace(masked, inputs(2, 5))(other), masked(other), 1e-6));
  EXPECT_TRUE(close(trace(plain, inputs(2, 5))(other), plain(other), 1e-6));
}

TEST(MeanPooling, WrongMasksThrow) {
  const auto x = torch::randn({2, 3, 4});
  EXPECT_THAT(
      [&] {
        mean_pooling(x, torch::ones({2, 3}));
      },
      throws_naming<c10::TypeError>("key_mask", "bool", "Float"));
  EXPECT_THAT(
      [&] {
        mean_pooling(x, torch::ones({2, 4}, torch::kBool));
      },
      throws_naming<c10::ValueError>("key_mask", "[2, 3, 4]", "[2, 4]"));
  EXPECT_THAT([&] { mean_pooling(torch::randn({4})); }, throws_naming<c10::ValueError>("[4]"));
}

}  // namespace
}  // namespace attend
