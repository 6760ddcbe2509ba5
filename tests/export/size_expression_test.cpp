#include "export/program/size_expression.h"

#include "export/program/symbolic_shapes.h"
#include "support/seed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace attend::program {
namespace {

const std::string kSymbol = "Symbol('s0', positive=True, integer=True)";

TEST(SizeExpression, EvaluatesExpressionsFoundBySymbolicShapes) {
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
      EXPECT_EQ(evaluate(*found, {{"s0", sizes[i]}}), values[i]) << found->expression;
    }
  }
}

TEST(SizeExpression, SymbolInReturnsTheNameOfASingleSymbol) {
  EXPECT_EQ(symbol_in(kSymbol), "s0");
  EXPECT_EQ(symbol_in("Add(Integer(1), " + kSymbol + ")"), "");
  EXPECT_EQ(symbol_in(""), "");
}

TEST(SizeExpression, FunctionsCombineIntegers) {
  const Size size{7, kSymbol};
  const auto expect = [](const Size& found, int64_t value, const std::string& expression) {
    EXPECT_EQ(std::pair(found.value, found.expression), std::pair(value, expression));
  };
  expect(Size{3} + Size{4}, 7, "");
  expect(size + Size{3} - Size{1}, 9, "Add(Integer(2), " + kSymbol + ")");
  expect(size + Size{3} - Size{3}, 7, kSymbol);
  expect(size + Size{3} - size, 3, "");
  expect(Size{2} - size, -5, "Add(Integer(2), Mul(Integer(-1), " + kSymbol + "))");
  expect(size * Size{2}, 14, "Mul(Integer(2), " + kSymbol + ")");
  expect(floor_div(floor_div(size, 2) + Size{1}, 3), 1,
         "FloorDiv(Add(Integer(2), " + kSymbol + "), Integer(6))");
  expect(min(size, Size{4}), 4, "Min(" + kSymbol + ", Integer(4))");
  expect(max(Size{9}, Size{4}), 9, "");
}

TEST(SizeExpression, FunctionsOfRandomSizesHaveTheValueOfTheirExpression) {
  seed_afresh();
  for (int i = 0; i < 500; ++i) {
    std::vector<Size> sizes;  // with the same expression, at several values of the symbol
    std::vector<std::map<std::string, int64_t>> symbols;
    for (int64_t value = 1; value < 200; value += 10) {
      sizes.push_back({value, kSymbol});
      symbols.push_back({{"s0", value}});
    }
    for (int j = 0; j < 6; ++j) {
      const Size number{draw(-20, 20)};
      const auto divisor = draw(1, 9);
      const auto choice = static_cast<std::size_t>(draw(0, 7));
      for (auto& size : sizes) {
        const std::vector<Size> results{size + number,     size - number,
                                        size * number,     number - size,
                                        size - size,       floor_div(size, divisor),
                                        min(size, number), max(size, number)};
        size = results.at(choice);
      }
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        ASSERT_EQ(sizes[k].expression, sizes[0].expression);
        ASSERT_EQ(evaluate(sizes[0].expression.empty() ? sizes[k] : sizes[0], symbols[k]),
                  sizes[k].value)
            << sizes[0].expression;
      }
    }
  }
}

TEST(SizeExpression, BoundsAreTheValuesAtTheEndsOfTheRanges) {
  const Size size{7, kSymbol};
  const auto at_most_9 = min(size + Size{-2}, Size{9});
  EXPECT_EQ(bounds_of(at_most_9, {{"s0", {.min = 4, .max = 30}}}), std::pair(2L, 9L));
  EXPECT_EQ(bounds_of(size, {{"s0", {.min = 4, .max = {}}}}).second,
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(bounds_of(Size{4} - size, {{"s0", {.min = 4, .max = 30}}}).first,
            std::numeric_limits<int64_t>::min());
}

}  // namespace
}  // namespace attend::program
