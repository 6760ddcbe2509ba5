#include "export/trial_values.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

constexpr std::array kIntegers{torch::kUInt8, torch::kInt8, torch::kShort, torch::kInt,
                               torch::kLong};
constexpr std::array kFloats{torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble};

/// Expects equal dtypes, shapes and elements.
void expect_equal(const torch::Tensor& found, const torch::Tensor& expected) {
  EXPECT_EQ(found.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(found.equal(expected)) << found << "\nexpected " << expected;
}

void expect_integers(Values values, std::vector<int64_t> input, std::vector<int64_t> expected) {
  for (const auto dtype : kIntegers) {
    SCOPED_TRACE(torch::toString(dtype));
    expect_equal(with_values(torch::tensor(input).to(dtype), values),
                 torch::tensor(expected).to(dtype));
  }
}

void expect_floats(Values values, std::vector<double> input, std::vector<double> expected) {
  for (const auto dtype : kFloats) {
    SCOPED_TRACE(torch::toString(dtype));
    expect_equal(with_values(torch::tensor(input).to(dtype), values),
                 torch::tensor(expected).to(dtype));
  }
}

const auto kTrueFalse = [] { return torch::tensor({true, false, true}); };

TEST(TrialValues, MirroredNegatesFloatsAndReversesTheRangeOfIntegers) {
  expect_floats(Values::mirrored, {1.5, -2, 0}, {-1.5, 2, 0});
  expect_integers(Values::mirrored, {3, 4, 7}, {7, 6, 3});
  expect_integers(Values::mirrored, {100, 120}, {120, 100});  // max + min exceeds int8
  expect_equal(with_values(kTrueFalse(), Values::mirrored), torch::tensor({false, true, false}));
}

TEST(TrialValues, OneMoreAddsOne) {
  expect_floats(Values::one_more, {1.5, -2}, {2.5, -1});
  expect_integers(Values::one_more, {0, 7}, {1, 8});
  expect_equal(with_values(kTrueFalse(), Values::one_more), torch::tensor({false, true, false}));
}

TEST(TrialValues, OneLessSubtractsOneFromPositiveIntegersOnly) {
  expect_integers(Values::one_less, {1, 7}, {0, 6});
  expect_integers(Values::one_less, {0, 7}, {0, 7});
  expect_floats(Values::one_less, {1.5, 2}, {1.5, 2});
}

TEST(TrialValues, UniformRepeatsTheFirstElement) {
  expect_floats(Values::uniform, {1.5, -2, 3}, {1.5, 1.5, 1.5});
  expect_integers(Values::uniform, {3, 4, 7}, {3, 3, 3});
  expect_equal(with_values(kTrueFalse(), Values::uniform), torch::tensor({true, true, true}));
  EXPECT_TRUE(with_values(torch::ones({2, 3}), Values::uniform).is_contiguous());
}

TEST(TrialValues, HalfZeroReplacesEverySecondElement) {
  expect_floats(Values::half_zero, {1.5, -2, 3}, {0, -2, 0});
  expect_integers(Values::half_zero, {5, 7, 3, 4}, {3, 7, 3, 4});
  expect_equal(with_values(torch::ones({3}, torch::kBool), Values::half_zero),
               torch::tensor({false, true, false}));
  // In a transposed matrix, too, "every second element" refers to row-major order.
  expect_equal(with_values(torch::ones({3, 2}).t(), Values::half_zero),
               torch::tensor({{0.F, 1.F, 0.F}, {1.F, 0.F, 1.F}}));
}

TEST(TrialValues, KeepTheShapeAndTheInput) {
  for (const auto values : kOtherValues) {
    for (const auto dtype : {torch::kFloat, torch::kInt, torch::kBool}) {
      for (const auto& shape : std::vector<std::vector<int64_t>>{{}, {2, 3}, {0}, {2, 0}}) {
        const auto input = torch::ones(shape, dtype);
        const auto other = with_values(input, values);
        EXPECT_EQ(other.sizes(), input.sizes());
        EXPECT_EQ(other.scalar_type(), dtype);
        expect_equal(input, torch::ones(shape, dtype));
      }
    }
  }
}

TEST(TrialValues, AsInExampleReturnsTheInput) {
  const auto input = torch::randn({3});
  EXPECT_TRUE(with_values(input, Values::as_in_example).is_same(input));
}

TEST(TrialValues, DtypesThatFewOperatorsSupportKeepTheirValues) {
  for (const auto dtype :
       {torch::kComplexFloat, torch::kFloat8_e4m3fn, torch::kFloat8_e5m2, torch::kUInt16}) {
    const auto input = torch::ones({3}).to(dtype);
    EXPECT_FALSE(supports_other_values(input)) << dtype;
    for (const auto values : kOtherValues) EXPECT_TRUE(with_values(input, values).is_same(input));
  }
  for (const auto dtype : kIntegers) EXPECT_TRUE(supports_other_values(torch::ones({3}, dtype)));
  for (const auto dtype : kFloats) EXPECT_TRUE(supports_other_values(torch::ones({3}, dtype)));
  EXPECT_TRUE(supports_other_values(torch::ones({3}, torch::kBool)));
}

}  // namespace
}  // namespace attend
