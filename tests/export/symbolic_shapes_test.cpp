#include "export/program/symbolic_shapes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attend::program {
namespace {

/// `found(function)` computes `function(kOne[i], kOther[i])` for each i. It returns the expression
/// that `sizes` finds for these values, a number if the values are constant, or "none".
struct Found {
  explicit Found(SymbolicShapes& sizes) : sizes(sizes) {}
  template <typename Function>
  std::string operator()(Function function) {
    std::vector<int64_t> values;
    for (std::size_t i = 0; i < kOne.size(); ++i) values.push_back(function(kOne[i], kOther[i]));
    const auto size = sizes.find(values);
    if (!size) return "none";
    EXPECT_EQ(size->value, values.front());
    return text_of(*size);
  }
  static inline const std::vector<int64_t> kOne{9,  2, 2, 3, 4, 5, 7, 10, 15,
                                                23, 3, 3, 5, 5, 2, 2, 2,  2};
  static inline const std::vector<int64_t> kOther{4, 2, 2, 2, 2, 2, 2, 2, 2,
                                                  2, 3, 5, 3, 7, 3, 4, 5, 7};
  static std::vector<std::size_t> all_runs() {
    std::vector<std::size_t> runs(kOne.size());
    std::iota(runs.begin(), runs.end(), 0);
    return runs;
  }
  SymbolicShapes& sizes;
};

struct SymbolicShapesTest : testing::Test {
  SymbolicShapes sizes{{"s0", "s1"}, {Found::kOne, Found::kOther}, Found::all_runs()};
  Found found{sizes};
};

TEST_F(SymbolicShapesTest, FindsIntegersSymbolsAndPolynomials) {
  EXPECT_EQ(found([](int64_t, int64_t) { return 7; }), "7");
  EXPECT_EQ(found([](int64_t a, int64_t) { return a; }), "s0");
  EXPECT_EQ(found([](int64_t, int64_t b) { return b; }), "s1");
  EXPECT_EQ(found([](int64_t a, int64_t) { return 8 * a + 1; }), "1 + 8*s0");
  EXPECT_EQ(found([](int64_t a, int64_t) { return a * a - a; }), "-1*s0 + s0*s0");
  EXPECT_EQ(found([](int64_t a, int64_t b) { return 3 * a * b; }), "3*s0*s1");
}

TEST_F(SymbolicShapesTest, FindsQuotients) {
  const auto half = "s0 // 2";
  EXPECT_EQ(found([](int64_t a, int64_t) { return a / 2; }), half);
  EXPECT_EQ(found([](int64_t a, int64_t) { return (a - 2) / 3 + 1; }), "(1 + s0) // 3");
  EXPECT_EQ(found([](int64_t a, int64_t) { return 6 * (a / 5) + 2; }), "2 + 6*(s0 // 5)");
  // Later sizes can be polynomials of the quotient.
  EXPECT_EQ(found([](int64_t a, int64_t b) { return 5 * (a / 2) * b; }), "5*s1*(s0 // 2)");
}

TEST(SymbolicShapes, FindExpressionsWithTheValuesOfTheSizes) {
  std::vector<int64_t> sizes(60);
  std::iota(sizes.begin(), sizes.end(), 2);
  std::vector<std::size_t> all(sizes.size());
  std::iota(all.begin(), all.end(), 0);
  SymbolicShapes shapes({"s0"}, {sizes}, all);
  const std::vector<int64_t (*)(int64_t)> functions{
      [](int64_t) { return int64_t{7}; },
      [](int64_t n) { return n; },
      [](int64_t n) { return 3 * n * n + 5; },
      [](int64_t n) { return (n - 1) / 2 + 1; },
      [](int64_t n) { return std::min<int64_t>(n, 20); },
      [](int64_t n) { return std::clamp<int64_t>(n - 4, 0, 30); },
      [](int64_t n) { return 6 * std::max<int64_t>(n - 9, 0); }};
  for (const auto function : functions) {
    std::vector<int64_t> values;
    for (const auto size : sizes) values.push_back(function(size));
    const auto found = shapes.find(values);
    ASSERT_TRUE(found);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(evaluate(*found, {{"s0", sizes[i]}}), values[i]) << text_of(*found);
    }
  }
}

TEST(SymbolicShapes, FindProductsOfQuotientsThatHaveFewValues) {
  // The first two calls get the height and width of an image after two poolings with kernel size 2
  // and padding 1. The third call gets the stride of the batch dimension, 3 * height * width.
  SymbolicShapes sizes({"s0", "s1"}, {{2, 9, 2, 9, 5}, {2, 2, 9, 9, 5}}, {0, 1, 2, 3, 4});
  sizes.find({2, 3, 2, 3, 2});
  sizes.find({2, 2, 3, 3, 2});
  EXPECT_TRUE(sizes.find({12, 18, 18, 27, 12}));
}

TEST_F(SymbolicShapesTest, FindsClampedSizes) {
  EXPECT_EQ(found([](int64_t a, int64_t) { return std::min<int64_t>(a, 10); }), "min(s0, 10)");
  EXPECT_EQ(found([](int64_t a, int64_t) { return std::max<int64_t>(a - 4, 0); }),
            "max(-4 + s0, 0)");
  EXPECT_EQ(found([](int64_t a, int64_t) { return std::clamp<int64_t>(a - 4, 0, 10); }),
            "min(max(-4 + s0, 0), 10)");
  found([](int64_t a, int64_t b) { return a * b; });  // the size that is sliced
  EXPECT_EQ(found([](int64_t a, int64_t b) { return std::min<int64_t>(a * b, 15); }),
            "min(s0*s1, 15)");
  // Later sizes can be polynomials of the clamped size.
  EXPECT_EQ(found([](int64_t a, int64_t b) { return 3 * b * std::min<int64_t>(a, 10); }),
            "3*s1*min(s0, 10)");
}

TEST(SymbolicShapes, FindClampsThatOccurOnlyAtLargeSizes) {
  SymbolicShapes sizes({"s0"}, {{2, 3, 5, 511, 512, 513, 515, 600, 4096}}, {0, 1, 2});
  EXPECT_EQ(text_of(*sizes.find({2, 3, 5, 511, 512, 512, 512, 512, 512})), "min(s0, 512)");
  EXPECT_EQ(text_of(*sizes.find({0, 0, 0, 0, 0, 1, 3, 88, 3584})), "max(-512 + s0, 0)");
  EXPECT_FALSE(sizes.find({2, 3, 5, 511, 512, 500, 515, 600, 4096}));
  EXPECT_EQ(text_of(*sizes.find({0, 0, 0, 0, 0, 4, 12, 352, 14336})), "4*max(-512 + s0, 0)");
  // Only two values are not clamped to 0: too few to determine an expression.
  EXPECT_FALSE(sizes.find({0, 0, 0, 0, 0, 0, 0, 87, 3581}));
}

TEST_F(SymbolicShapesTest, FindsClampedQuotients) {
  EXPECT_EQ(found([](int64_t a, int64_t) { return std::min<int64_t>(a / 2, 5); }),
            "min(s0 // 2, 5)");
}

TEST_F(SymbolicShapesTest, FindsDifferencesOfASizeAndAQuotient) {
  EXPECT_EQ(found([](int64_t a, int64_t) { return a - a / 5; }), "(4 + 4*s0) // 5");
}

TEST(SymbolicShapes, PreferQuotientsWithSmallDivisors) {
  // The second size is (s0 + 3) / 4. The third is (second + 1) / 2, but also (2 * s0 + 13) / 15 for
  // these values of s0.
  SymbolicShapes sizes({"s0"}, {{2, 3, 4, 5, 6, 7, 8, 9}}, {0, 1, 2, 3, 4, 5, 6, 7});
  sizes.add(Expression::symbol("n"), {1, 2, 3, 4, 5, 6, 6, 7});
  EXPECT_EQ(text_of(*sizes.find({1, 1, 2, 2, 3, 3, 3, 4})), "(1 + n) // 2");
}

TEST_F(SymbolicShapesTest, FindsQuotientsOfPolynomials) {
  EXPECT_EQ(found([](int64_t a, int64_t) { return a * (a + 1) / 2; }), "(s0 + s0*s0) // 2");
  EXPECT_EQ(found([](int64_t a, int64_t) { return a * (a * a - 1) / 6; }),
            "(-1*s0 + s0*s0*s0) // 6");
  // Later sizes can be polynomials of the quotient.
  EXPECT_EQ(found([](int64_t a, int64_t b) { return b + a * (a - 1) / 2; }),
            "-1*s0 + s1 + (s0 + s0*s0) // 2");
  EXPECT_EQ(found([](int64_t a, int64_t b) { return a * b / 4; }), "s0*s1 // 4");
  EXPECT_EQ(found([](int64_t a, int64_t b) { return (a * b + 2) / 3; }), "(2 + s0*s1) // 3");
}

TEST_F(SymbolicShapesTest, FindsProductsOfQuotients) {
  EXPECT_EQ(found([](int64_t a, int64_t b) { return (a / 2) * b; }), "(s0 // 2)*s1");
  EXPECT_EQ(found([](int64_t a, int64_t b) { return 5 * (a / 2) * ((b + 1) / 2); }),
            "5*(s0 // 2)*((1 + s1) // 2)");
}

TEST(SymbolicShapes, FindSumsOfQuotients) {
  // All pairs of some of the sizes that are near a minimum of 1.
  std::vector<int64_t> one, other;
  for (const int64_t a : {2, 3, 4, 5, 7, 10, 15, 23, 36, 57}) {
    for (const int64_t b : {2, 3, 5, 7, 10}) {
      one.push_back(a);
      other.push_back(b);
    }
  }
  std::vector<std::size_t> all(one.size());
  std::iota(all.begin(), all.end(), 0);
  const auto found = [&](int64_t (*function)(int64_t, int64_t)) {
    SymbolicShapes sizes({"s0", "s1"}, {one, other}, all);
    std::vector<int64_t> values;
    for (std::size_t i = 0; i < one.size(); ++i) values.push_back(function(one[i], other[i]));
    const auto size = sizes.find(values);
    return size ? text_of(*size) : "none";
  };
  EXPECT_EQ(found([](int64_t a, int64_t) { return a / 2 + a / 3; }), "s0 // 2 + s0 // 3");
  EXPECT_EQ(found([](int64_t a, int64_t) { return (a + 1) / 2 + (a + 2) / 3; }),
            "(1 + s0) // 2 + (2 + s0) // 3");
  EXPECT_EQ(found([](int64_t a, int64_t b) { return (a + 2) / 3 + (b + 1) / 2; }),
            "(1 + s1) // 2 + (2 + s0) // 3");
  EXPECT_EQ(found([](int64_t a, int64_t b) { return 2 * b + 1 - a / 3; }),
            "-1*(s0 // 3) + 1 + 2*s1");
  EXPECT_EQ(found([](int64_t a, int64_t b) { return a / 2 + 3 * (a / 3) + b / 2; }), "none");
}

TEST_F(SymbolicShapesTest, FindsMinimaOfTwoSizes) {
  EXPECT_EQ(found([](int64_t a, int64_t b) { return std::min(a, b); }), "min(s0, s1)");
  // Later sizes can be polynomials of the minimum.
  EXPECT_EQ(found([](int64_t a, int64_t b) { return 2 * a * std::min(a, b); }), "2*s0*min(s0, s1)");
}

TEST_F(SymbolicShapesTest, FindsMaximaOfTwoSizes) {
  EXPECT_EQ(found([](int64_t a, int64_t b) { return 3 + std::max(a, b) - b; }),
            "3 + -1*min(s0, s1) + s0");
}

/// With so few values, many expressions would agree.
TEST(SymbolicShapes, DoNotSumQuotientsOfFewValues) {
  SymbolicShapes sizes({"s0"}, {{2, 3, 4, 5, 6}}, {0, 1, 2, 3, 4});
  EXPECT_FALSE(sizes.find({1, 2, 3, 3, 5}));
}

/// In these runs, the sum is a line up to the last size.
TEST(SymbolicShapes, RejectExpressionsThatDifferInOneRun) {
  SymbolicShapes sizes({"s0"}, {{2, 3, 4, 5, 6, 7, 8, 9, 4096}}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_FALSE(sizes.find({3, 6, 10, 15, 21, 28, 36, 45, 4096}));  // s0 * (s0 + 1) / 2
  EXPECT_FALSE(sizes.find({1, 2, 3, 3, 5, 5, 6, 7, 3000}));        // s0 / 2 + s0 / 3
}

TEST_F(SymbolicShapesTest, FindsRemainders) {
  EXPECT_EQ(found([](int64_t a, int64_t) { return a % 3; }), "s0 % 3");
  EXPECT_EQ(found([](int64_t a, int64_t) { return 5 + (a + 1) % 2; }), "5 + (1 + -1*s0) % 2");
  EXPECT_EQ(found([](int64_t a, int64_t) { return (4 - a % 4) % 4; }), "-1*s0 % 4");
}

TEST_F(SymbolicShapesTest, FindsSquareRoots) {
  const auto root = [](int64_t a) {
    return static_cast<int64_t>(std::sqrt(static_cast<double>(a)));
  };
  EXPECT_EQ(found([&](int64_t a, int64_t) { return root(a); }), "sqrt(s0)");
  EXPECT_EQ(found([&](int64_t a, int64_t) { return root(a) * root(a); }), "sqrt(s0)*sqrt(s0)");
}

TEST_F(SymbolicShapesTest, FindsStepFunctions) {
  EXPECT_EQ(found([](int64_t a, int64_t) { return a > 4 ? 1 : 0; }), "min(max(-4 + s0, 0), 1)");
  EXPECT_EQ(found([](int64_t a, int64_t) { return a > 4 ? 9 : 3; }),
            "3 + 6*min(max(-4 + s0, 0), 1)");
}

TEST(SymbolicShapes, ReturnNulloptWithoutDynamicSizes) {
  SymbolicShapes sizes({}, {}, {0});
  EXPECT_FALSE(sizes.find({3, 3, 4}));
}

TEST_F(SymbolicShapesTest, ReturnsNulloptForOtherFunctions) {
  EXPECT_EQ(found([](int64_t a, int64_t b) { return a % 3 + b % 2; }), "none");
}

TEST(SymbolicShapes, PreferTheLowestDegreeForFewRuns) {
  SymbolicShapes sizes({"s0"}, {{2, 3}}, {0, 1});
  EXPECT_EQ(text_of(*sizes.find({8, 12})), "4*s0");
}

}  // namespace
}  // namespace attend::program
