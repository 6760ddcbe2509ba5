#include "export/compare.h"

#include "support/throws.h"

#include <limits>

namespace attend {
namespace {

constexpr double kTolerance = 1e-5;

auto compare_call(const torch::Tensor& found, const torch::Tensor& expected) {
  return [=] { compare(found, expected, kTolerance, "for x, the exported program returns"); };
}

TEST(CompareOutputs, ToleranceIsRelativeToTheLargestExpectedValue) {
  const auto expected = torch::softmax(torch::randn({50000}, torch::kDouble), 0);
  EXPECT_LE(
      compare(expected * (1 + 1e-7), expected, kTolerance, "for x, the exported program returns"),
      1e-8);
  EXPECT_THAT(compare_call(expected * 1.5, expected), throws<std::runtime_error>("to within"));
  EXPECT_THAT(compare_call(torch::full({3}, 1e-9), torch::zeros({3})),
              throws<std::runtime_error>("expected the module's value 0"));
}

TEST(CompareOutputs, ToleranceOfAnElementDoesNotExceedItsOwnScale) {
  const auto expected = torch::tensor({1000.0, 0.1});
  EXPECT_THAT(compare_call(expected + torch::tensor({0.0, 1e-4}), expected),
              throws<std::runtime_error>("expected the module's value 0.1"));
}

TEST(CompareOutputs, AcceptsEqualInfinitiesAndNaNs) {
  const auto infinity = std::numeric_limits<float>::infinity();
  const auto expected = torch::tensor({1.0F, infinity, -infinity, NAN});
  EXPECT_EQ(compare(expected.clone(), expected, kTolerance, "for x, the exported program returns"),
            0.0);
  for (int64_t i = 0; i < 4; ++i) {
    auto found = expected.clone();
    found[i] = i == 3 ? 1.0F : NAN;
    EXPECT_THAT(compare_call(found, expected), throws<std::runtime_error>("to within"));
  }
}

TEST(CompareOutputs, ComparesIntegersExactly) {
  for (const auto value : {int64_t{1} << 60, int64_t{200000}}) {
    const auto expected = torch::tensor({value});
    EXPECT_EQ(
        compare(expected.clone(), expected, kTolerance, "for x, the exported program returns"),
        0.0);
    EXPECT_THAT(compare_call(expected + 1, expected),
                throws<std::runtime_error>(std::to_string(value + 1).c_str()));
  }
}

TEST(CompareOutputs, ComparesImaginaryParts) {
  const auto expected = torch::complex(torch::ones({2}), torch::ones({2}));
  EXPECT_EQ(compare(expected.clone(), expected, kTolerance, "for x, the exported program returns"),
            0.0);
  EXPECT_THROW(compare_call(expected.conj(), expected)(), std::runtime_error);
}

/// Tensors with more than 2^20 elements are compared in slices of at most 2^20 elements.
TEST(CompareOutputs, ComparesEveryElementOfLargeTensors) {
  const auto expected = torch::rand({3, 700, 900});
  for (const auto& shape : {std::vector<int64_t>{3, 700, 900}, {1, 3, 630000}, {1890000}}) {
    const auto view = expected.view(shape);
    EXPECT_EQ(compare(view.clone(), view, kTolerance, "for x, the exported program returns"), 0.0);
    for (const int64_t place : {0, 629999, 630000, 1889999}) {
      auto found = view.clone();
      found.view({-1})[place] += 1;
      EXPECT_THROW(compare_call(found, view)(), std::runtime_error) << place;
    }
  }
  EXPECT_EQ(compare(torch::empty({0, 3}), torch::empty({0, 3}), kTolerance,
                    "for x, the exported program returns"),
            0.0);
}

}  // namespace
}  // namespace attend
