#include "export/program/size_expression.h"

#include "export/program/symbolic_shapes.h"

#include <gmock/gmock.h>

#include <algorithm>
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

}  // namespace
}  // namespace attend::program
