#include "program/size.h"

#include "support/seed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace attend::program {
namespace {

constexpr auto kSmallest = std::numeric_limits<int64_t>::min();
constexpr auto kLargest = std::numeric_limits<int64_t>::max();
const Expression kSymbol = Expression::symbol("s0");

TEST(SizeExpression, SymbolInReturnsTheNameOfASingleSymbol) {
  const Size size{7, kSymbol};
  EXPECT_EQ(symbol_in(size), "s0");
  EXPECT_EQ(symbol_in({7, Expression::unbacked("u0")}), "u0");
  EXPECT_EQ(symbol_in(size + Size{1}), "");
  EXPECT_EQ(symbol_in({7}), "");
}

TEST(SizeExpression, FunctionsCombineIntegers) {
  const Size size{7, kSymbol};
  const auto expect = [](const Size& found, int64_t value, const std::string& text) {
    EXPECT_EQ(std::pair(found.value, text_of(found)), std::pair(value, text));
  };
  expect(Size{3} + Size{4}, 7, "7");
  expect(size + Size{3} - Size{1}, 9, "2 + s0");
  expect(size + Size{3} - Size{3}, 7, "s0");
  expect(size + Size{3} - size, 3, "3");
  expect(Size{2} - size, -5, "2 + -1*s0");
  expect(size * Size{2}, 14, "2*s0");
  expect(floor_div(floor_div(size, 2) + Size{1}, 3), 1, "(2 + s0) // 6");
  expect(min(size, Size{4}), 4, "min(s0, 4)");
  expect(max(Size{9}, Size{4}), 9, "9");
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
            << text_of(sizes[0]);
      }
    }
  }
}

TEST(SizeExpression, BoundsAreTheValuesAtTheEndsOfTheRanges) {
  const Size size{7, kSymbol};
  const std::map<std::string, Range> ranges{{"s0", {.min = 4, .max = 30}}};
  const std::map<std::string, Range> unlimited{{"s0", {.min = 4, .max = {}}}};
  EXPECT_EQ(bounds_of(min(size + Size{-2}, Size{9}), ranges), std::pair(2L, 9L));
  EXPECT_EQ(bounds_of(Size{4} - size, ranges), std::pair(-26L, 0L));
  EXPECT_EQ(bounds_of(size, unlimited), std::pair(4L, kLargest));
  EXPECT_EQ(bounds_of(floor_div(size + Size{-5}, 2), unlimited), std::pair(-1L, kLargest));
  EXPECT_EQ(bounds_of(Size{4} - size, unlimited), std::pair(kSmallest, 0L));
  EXPECT_EQ(bounds_of(Size{1, kSymbol} * Size{kLargest}, ranges), std::pair(kLargest, kLargest));
}

TEST(SizeExpression, BoundsOfRandomSizesContainTheirValues) {
  seed_afresh();
  for (int i = 0; i < 2000; ++i) {
    const auto min = draw(1, 20);
    const std::map<std::string, Range> ranges{{"s0", {.min = min, .max = min + draw(0, 20)}},
                                              {"u0", {.min = 0, .max = std::nullopt}}};
    std::vector<Size> sizes{{min, kSymbol}, {0, Expression::unbacked("u0")}, {draw(-9, 9)}};
    for (int j = 0; j < 6; ++j) {
      const auto any = [&] {
        return sizes.at(static_cast<std::size_t>(draw(0, std::ssize(sizes) - 1)));
      };
      const auto a = any(), b = any();
      const std::vector<Size> results{
          a + b, a - b, a * b, floor_div(a, draw(1, 9)), program::min(a, b), max(a, b)};
      sizes.push_back(results.at(static_cast<std::size_t>(draw(0, 5))));
    }
    const std::map<std::string, int64_t> symbols{{"s0", draw(min, *ranges.at("s0").max)},
                                                 {"u0", draw(0, 30)}};
    for (const auto& size : sizes) {
      const auto [lower, upper] = bounds_of(size, ranges);
      const auto value = evaluate(size, symbols);
      ASSERT_LE(lower, value) << text_of(size);
      ASSERT_GE(upper, value) << text_of(size);
    }
  }
}

TEST(SizeExpression, IsEqualToTheSameTree) {
  const auto sum = [](const Size& a, const Size& b) { return (a + b).expression; };
  const Size size{7, kSymbol};
  const Size other{7, Expression::unbacked("s0")};
  EXPECT_EQ(sum(size, other), sum({3, kSymbol}, other));
  EXPECT_NE(sum(size, other), sum(other, size));
  EXPECT_NE(sum(size, size), sum(size, other));
  EXPECT_NE(size.expression, Expression());
  EXPECT_EQ(Expression(), Expression());
  const std::map<Expression, int> map{
      {sum(size, other), 1}, {Expression(), 2}, {size.expression, 3}};
  EXPECT_EQ(map.at((Size{9, kSymbol} + other).expression), 1);
}

}  // namespace
}  // namespace attend::program
