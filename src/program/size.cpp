#include "program/size.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace attend::program {
namespace {

using Kind = Expression::Kind;

int64_t floored_quotient(int64_t a, int64_t b) {
  return a / b - static_cast<int64_t>(a % b != 0 && (a < 0) != (b < 0));
}

int64_t apply(Kind function, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (function == Kind::add) overflows = __builtin_add_overflow(a, b, &result);
  if (function == Kind::mul) overflows = __builtin_mul_overflow(a, b, &result);
  if (function == Kind::floor_div || function == Kind::mod) {
    // The size hint of a divisor that depends on values is 0.
    const auto quotient = b == 0 ? 0 : floored_quotient(a, b);
    result = function == Kind::mod ? a - quotient * b : quotient;
  }
  if (function == Kind::min) result = std::min(a, b);
  if (function == Kind::max) result = std::max(a, b);
  if (overflows) throw std::overflow_error("a size overflows 64 bits");
  return result;
}

int64_t apply_to_one(Kind function, int64_t a) {
  if (function == Kind::sqrt)
    return static_cast<int64_t>(std::sqrt(std::max(static_cast<double>(a), 0.0)));
  return a;  // a sum, product, minimum or maximum of one argument
}

/// The values from `first` to `second`. Infinity stands for an unknown bound.
using Interval = std::pair<double, double>;
constexpr auto kInfinity = std::numeric_limits<double>::infinity();

/// Returns an interval that contains `function(x, y)` for all x in `a` and y in `b`.
Interval apply(Kind function, const Interval& a, const Interval& b) {
  if (function == Kind::add) return {a.first + b.first, a.second + b.second};
  if (function == Kind::floor_div || function == Kind::mod) {
    if (b.first != b.second || b.first < 1) return {-kInfinity, kInfinity};
    if (function == Kind::mod) return {0, b.first - 1};
    return {std::floor(a.first / b.first), std::floor(a.second / b.first)};
  }
  const auto at = [&](double x, double y) {
    if (function == Kind::mul) return x == 0 || y == 0 ? 0 : x * y;  // 0 also with infinity
    return function == Kind::min ? std::min(x, y) : std::max(x, y);
  };
  return std::minmax(
      {at(a.first, b.first), at(a.first, b.second), at(a.second, b.first), at(a.second, b.second)});
}

Interval apply_to_one(Kind function, const Interval& a) {
  if (function != Kind::sqrt) return a;
  return {std::floor(std::sqrt(std::max(a.first, 0.0))), std::sqrt(std::max(a.second, 0.0))};
}

/// Evaluates a tree with `apply`. `value_of` returns the value of an integer or a symbol.
template <typename Function>
auto evaluate_tree(const Expression& expression, const Function& value_of) {
  const auto& arguments = expression.arguments();
  if (arguments.empty()) return value_of(expression);
  auto value = apply_to_one(expression.kind(), evaluate_tree(arguments.front(), value_of));
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    value = apply(expression.kind(), value, evaluate_tree(arguments[i], value_of));
  }
  return value;
}

int64_t to_int64(double bound) {
  using Limits = std::numeric_limits<int64_t>;
  if (bound >= 0x1p63) return Limits::max();
  return bound < -0x1p63 ? Limits::min() : static_cast<int64_t>(bound);
}

Expression expression_of(const Size& size) {
  return size.expression.empty() ? Expression(size.value) : size.expression;
}

/// `in_product`: true for an argument of a product, quotient or remainder.
std::string text_of(const Expression& expression, bool in_product = false) {
  const auto kind = expression.kind();
  if (kind == Kind::integer) return std::to_string(expression.integer());
  if (expression.arguments().empty()) return expression.text();
  const bool is_product = kind == Kind::mul || kind == Kind::floor_div || kind == Kind::mod;
  std::vector<std::string> texts;
  for (const auto& argument : expression.arguments())
    texts.push_back(text_of(argument, is_product));
  if (kind == Kind::min || kind == Kind::max || kind == Kind::sqrt) {
    const auto* name = kind == Kind::min ? "min" : kind == Kind::max ? "max" : "sqrt";
    return fmt::format("{}({})", name, fmt::join(texts, ", "));
  }
  if (kind == Kind::mul) return fmt::format("{}", fmt::join(texts, "*"));
  const auto* sign = kind == Kind::add ? " + " : kind == Kind::mod ? " % " : " // ";
  const auto text = fmt::format("{}", fmt::join(texts, sign));
  return in_product ? "(" + text + ")" : text;
}

/// Returns a size with the expression function(a, b), or an integer if both arguments are integers.
Size call(Kind function, const Size& a, const Size& b) {
  const auto value = apply(function, a.value, b.value);
  if (a.expression.empty() && b.expression.empty()) return {value};
  return {value, Expression(function, {expression_of(a), expression_of(b)})};
}

/// Returns {3, x} for the expression 3 + x, and {0, expression} for other expressions.
std::pair<int64_t, Expression> split_sum(const Expression& expression) {
  if (expression.is(Kind::add) && expression.arguments().size() == 2) {
    const auto& first = expression.arguments().front();
    if (first.is(Kind::integer)) return {first.integer(), expression.arguments().back()};
  }
  return {0, expression};
}

bool is_integer(const Size& size, int64_t value) {
  return size.expression.empty() && size.value == value;
}

}  // namespace

Expression::Expression(int64_t integer)
    : node_(std::make_shared<const Node>(Node{.kind = Kind::integer, .integer = integer})) {}

Expression::Expression(Kind kind, const std::string& text)
    : node_(std::make_shared<const Node>(Node{.kind = kind, .text = text})) {}

Expression::Expression(Kind function, std::vector<Expression> arguments) {
  std::size_t num_nodes = 1;
  for (const auto& argument : arguments) num_nodes += argument.num_nodes();
  node_ = std::make_shared<const Node>(
      Node{.kind = function, .arguments = std::move(arguments), .num_nodes = num_nodes});
}

bool Expression::contains(Kind kind) const {
  if (empty() || is(kind)) return !empty();
  const auto& all = arguments();
  return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.contains(kind); });
}

std::strong_ordering operator<=>(const Expression& a, const Expression& b) {
  if (a.node_ == b.node_) return std::strong_ordering::equal;
  if (a.empty() || b.empty()) return b.empty() <=> a.empty();
  return std::tie(a.node_->kind, a.node_->integer, a.node_->text, a.node_->arguments) <=>
         std::tie(b.node_->kind, b.node_->integer, b.node_->text, b.node_->arguments);
}

std::string symbol_in(const Size& size) {
  const auto& expression = size.expression;
  const bool is_symbol = expression.is(Kind::symbol) || expression.is(Kind::unbacked);
  return is_symbol ? expression.text() : "";
}

std::string text_of(const Size& size) {
  return text_of(expression_of(size));
}

int64_t evaluate(const Size& size, const std::map<std::string, int64_t>& symbols) {
  return evaluate_tree(expression_of(size), [&](const Expression& leaf) {
    return leaf.is(Kind::integer) ? leaf.integer() : symbols.at(leaf.text());
  });
}

std::pair<int64_t, int64_t> bounds_of(const Size& size,
                                      const std::map<std::string, Range>& ranges) {
  const auto interval = evaluate_tree(expression_of(size), [&](const Expression& leaf) -> Interval {
    if (leaf.is(Kind::integer)) {
      const auto integer = static_cast<double>(leaf.integer());
      return {integer, integer};
    }
    const auto& [min, max] = ranges.at(leaf.text());
    return {static_cast<double>(min.value_or(1)), max ? static_cast<double>(*max) : kInfinity};
  });
  return {to_int64(interval.first), to_int64(interval.second)};
}

// Integers are the first arguments of sums and products, as in torch.export's programs.

Size operator+(const Size& a, const Size& b) {
  if (is_integer(b, 0)) return a;
  if (is_integer(a, 0)) return b;
  if (!b.expression.empty() || a.expression.empty()) return call(Kind::add, a, b);
  const auto [integer, rest] = split_sum(a.expression);
  const Size added = Size{integer} + Size{b.value};
  const Size other{a.value - integer, rest};
  return added.value == 0 ? other : call(Kind::add, added, other);
}

Size operator-(const Size& a, const Size& b) {
  // (b + c) - b is c.
  if (a.expression.is(Kind::add)) {
    auto terms = a.expression.arguments();
    const auto term = std::find(terms.begin(), terms.end(), expression_of(b));
    if (term != terms.end()) {
      terms.erase(term);
      const auto value = a.value - b.value;
      if (terms.size() > 1) return {value, Expression(Kind::add, terms)};
      return terms.front().is(Kind::integer) ? Size{value} : Size{value, terms.front()};
    }
  }
  return a + b * Size{-1};
}

Size operator*(const Size& a, const Size& b) {
  if (is_integer(a, 1)) return b;
  if (is_integer(b, 1)) return a;
  return b.expression.empty() ? call(Kind::mul, b, a) : call(Kind::mul, a, b);
}

Size floor_div(const Size& a, int64_t divisor) {
  if (divisor == 1) return a;
  // floor((integer + floor(x / inner)) / divisor) is floor((integer * inner + x) / (inner *
  // divisor)).
  const auto [integer, rest] = split_sum(a.expression);
  if (rest.is(Kind::floor_div) && rest.arguments().back().is(Kind::integer)) {
    const auto inner = rest.arguments().back().integer();
    auto result =
        floor_div(Size{0, rest.arguments().front()} + Size{apply(Kind::mul, integer, inner)},
                  apply(Kind::mul, inner, divisor));
    result.value = floored_quotient(a.value, divisor);
    return result;
  }
  return call(Kind::floor_div, a, Size{divisor});
}

Size floor_div(const Size& a, const Size& divisor) {
  if (divisor.expression.empty()) return floor_div(a, divisor.value);
  return call(Kind::floor_div, a, divisor);
}

Size mod(const Size& a, const Size& divisor) {
  return call(Kind::mod, a, divisor);
}

Size min(const Size& a, const Size& b) {
  return call(Kind::min, a, b);
}

Size max(const Size& a, const Size& b) {
  return call(Kind::max, a, b);
}

Size sqrt(const Size& a) {
  const auto value = apply_to_one(Kind::sqrt, a.value);
  return a.expression.empty() ? Size{value} : Size{value, Expression(Kind::sqrt, {a.expression})};
}

}  // namespace attend::program
