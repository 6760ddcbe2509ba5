#include "export/rounding.h"

#include "export/compare.h"
#include "support/throws.h"

#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

TEST(Rounding, IsProportionalToTheEpsilonOfTheDtype) {
  const torch::NoGradGuard no_grad;
  for (const auto& [dtype, epsilon] : std::vector<std::pair<torch::Dtype, double>>{
           {torch::kDouble, 0x1p-52}, {torch::kFloat, 0x1p-23}, {torch::kBFloat16, 0x1p-7}}) {
    torch::nn::Linear linear(64, 8);
    linear->to(dtype);
    linear->weight.fill_(1).select(1, 0).fill_(-63);  // the sum of the products is 0
    linear->bias.fill_(0);
    const auto before = linear->weight.clone();
    const auto version = linear->weight._version();
    const auto forward = [&](const auto& in) -> Outputs {
      const torch::NoGradGuard no_grad;
      return linear(in[0]);
    };
    const auto rounding =
        rounding_of_outputs(*linear, forward, {torch::ones({2, 64}, dtype)}).at(0);
    // The sum of the magnitudes of the products is 126. Each product changes by at most 2 epsilon,
    // and partial sums of at most 63 are rounded.
    EXPECT_GT(rounding, epsilon) << dtype;
    EXPECT_LE(rounding, (2 * 126 + 64 * 63 / 2) * epsilon) << dtype;
    EXPECT_TRUE(linear->weight.equal(before));
    EXPECT_EQ(linear->weight._version(), version);  // copies of prepare_for_inference stay valid
  }
}

TEST(Rounding, RestoresBuffersAndTheGenerator) {
  torch::nn::Module module;
  const auto calls = module.register_buffer("calls", torch::zeros({1}));
  const auto forward = [&](const auto& in) -> Outputs {
    return calls.add_(1) + torch::rand_like(in[0]);
  };
  torch::manual_seed(3);
  const auto expected = torch::rand({3});
  torch::manual_seed(3);
  // The calls of the module have the same buffers and the same random numbers.
  EXPECT_LT(rounding_of_outputs(module, forward, {torch::ones({5})}).at(0), 1e-5);
  EXPECT_TRUE(calls.equal(torch::zeros({1})));
  EXPECT_TRUE(torch::rand({3}).equal(expected));
}

TEST(CompareOutputs, AllowsWhatRoundingChangesUpTo100Tolerances) {
  const auto expected = torch::ones({3}, torch::kDouble);
  const auto compare_with = [&](double difference, double rounding) {
    return [=] {
      compare(expected + difference, expected, 1e-5, "it returns", [=] { return rounding; });
    };
  };
  EXPECT_NO_THROW(compare_with(3e-4, 1e-4)());
  EXPECT_THAT(compare_with(5e-4, 1e-4), throws<std::runtime_error>("it returns"));
  EXPECT_THAT(compare_with(2e-3, 1.0), throws<std::runtime_error>("it returns"));
}

}  // namespace
}  // namespace attend
