#include "pt2/sympy_text.h"

#include <gtest/gtest.h>

#include <string>

namespace attend::pt2 {
namespace {

using program::Expression;
using Kind = Expression::Kind;

TEST(SympyText, IsParsedToTheSameExpression) {
  for (const std::string text :
       {"Integer(-3)", "Symbol('s0', positive=True, integer=True)", "Symbol('u0', integer=True)",
        "Add(Integer(1), Mul(Integer(-1), Symbol('s0', positive=True, integer=True)), Integer(2))",
        "FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2))",
        "PythonMod(Symbol('s0', positive=True, integer=True), Integer(2))",
        "TruncToInt(FloatPow(ToFloat(Symbol('u0', integer=True)), Float('0.5', precision=53)))",
        "Min(Max(Symbol('u0', integer=True), Integer(0)), Integer(512))"}) {
    const auto expression = parse_sympy(text);
    EXPECT_FALSE(expression.contains(Kind::other)) << text;
    EXPECT_EQ(sympy_text(expression), text);
  }
}

TEST(SympyText, ReadsRemaindersOfNumbersThatAreNotNegative) {
  EXPECT_TRUE(parse_sympy("Mod(Integer(7), Integer(2))").is(Kind::mod));
}

TEST(SympyText, KeepsOtherTexts) {
  const std::string symbol = "Symbol('s0', positive=True, integer=True)";
  std::string nested = symbol;
  for (int i = 0; i < 200; ++i) nested = "Add(Integer(1), " + nested + ")";
  for (const std::string& text :
       {std::string(), std::string("Add("), std::string("Integer(9999999999999999999)"),
        std::string("Integer(1"), std::string("Integer(x)"), std::string("Symbol('s0"),
        std::string("Symbol(s0)"), "Pow(" + symbol + ", Integer(2))", "Add(" + symbol + ", Pow(1))",
        symbol + " ", symbol + ", " + symbol, "FloorDiv(" + symbol + ")", nested}) {
    const auto expression = parse_sympy(text);
    EXPECT_TRUE(expression.is(Kind::other)) << text;
    EXPECT_EQ(sympy_text(expression), text);
  }
}

}  // namespace
}  // namespace attend::pt2
