#include "export/program/size_expression.h"

#include <c10/util/Exception.h>
#include <c10/util/generic_math.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace attend::program {
namespace {

int64_t sum(int64_t one, int64_t other) {
  int64_t result = 0;
  if (!__builtin_add_overflow(one, other, &result)) return result;
  throw std::overflow_error("a size overflows 64 bits");
}

int64_t product(int64_t one, int64_t other) {
  int64_t result = 0;
  if (!__builtin_mul_overflow(one, other, &result)) return result;
  throw std::overflow_error("a size overflows 64 bits");
}

/// Evaluates expressions such as Add(Integer(1), Mul(Integer(8), Symbol('s0', positive=True))).
class Reader {
 public:
  Reader(std::string_view text, const std::map<std::string, int64_t>& symbols)
      : text_(text), symbols_(symbols) {}

  int64_t read() {
    const auto function = read_until('(');
    if (function == "Integer") return std::stoll(std::string(read_until(')')));
    if (function == "Symbol") {
      const auto arguments = read_until(')');
      const auto name = arguments.substr(1, arguments.find('\'', 1) - 1);
      return symbols_.at(std::string(name));
    }
    const auto values = read_arguments();
    if (function == "Add") return std::accumulate(values.begin(), values.end(), int64_t{0}, sum);
    if (function == "Mul")
      return std::accumulate(values.begin(), values.end(), int64_t{1}, product);
    if (function == "FloorDiv") return c10::div_floor_integer(values.at(0), values.at(1));
    if (function == "Min") return *std::min_element(values.begin(), values.end());
    TORCH_INTERNAL_ASSERT(function == "Max", "unknown function ", function);
    return *std::max_element(values.begin(), values.end());
  }

 private:
  /// Returns the text up to `end`, and skips `end`.
  std::string_view read_until(char end) {
    const auto length = text_.find(end);
    TORCH_INTERNAL_ASSERT(length != std::string_view::npos, "expected ", end);
    const auto found = text_.substr(0, length);
    text_.remove_prefix(length + 1);
    return found;
  }

  std::vector<int64_t> read_arguments() {
    std::vector<int64_t> values{read()};
    while (text_.starts_with(", ")) {
      text_.remove_prefix(2);
      values.push_back(read());
    }
    read_until(')');
    return values;
  }

  std::string_view text_;  // text that is not yet read
  const std::map<std::string, int64_t>& symbols_;
};

std::string text_of(const Size& size) {
  return size.expression.empty() ? fmt::format("Integer({})", size.value) : size.expression;
}

/// Returns a Size with the value `value` and the expression "function(a, b)". If both a and b are
/// integers (their expressions are empty), the result is an integer, too.
Size call(const char* function, const Size& a, const Size& b, int64_t value) {
  if (a.expression.empty() && b.expression.empty()) return {value, {}};
  return {value, fmt::format("{}({}, {})", function, text_of(a), text_of(b))};
}

/// Returns the arguments if `expression` is a call of `function`, otherwise {}. For the expression
/// "Add(Integer(1), Symbol('s0', ...))" and the function "Add", for example, returns
/// {"Integer(1)", "Symbol('s0', ...)"}.
std::vector<std::string> arguments_of(const std::string& expression, const std::string& function) {
  if (!expression.starts_with(function + "(")) return {};
  std::vector<std::string> arguments(1);
  int depth = 0;
  for (std::size_t i = function.size() + 1; i + 1 < expression.size(); ++i) {
    const char c = expression[i];
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth == 0 && c == ',') {
      arguments.emplace_back();
      ++i;  // skips the space after the comma
    } else {
      arguments.back() += c;
    }
  }
  return arguments;
}

/// Returns 5 for "Integer(5)". Returns nullopt for other expressions.
std::optional<int64_t> integer_in(const std::string& expression) {
  if (!expression.starts_with("Integer(")) return std::nullopt;
  return std::stoll(expression.substr(std::string_view("Integer(").size()));
}

/// Returns {3, x} for "Add(Integer(3), x)", and {0, expression} for other expressions.
std::pair<int64_t, std::string> split_sum(const std::string& expression) {
  const auto terms = arguments_of(expression, "Add");
  const auto integer = terms.size() == 2 ? integer_in(terms.front()) : std::nullopt;
  return integer ? std::pair(*integer, terms.back()) : std::pair(int64_t{0}, expression);
}

bool is_integer(const Size& size, int64_t value) {
  return size.expression.empty() && size.value == value;
}

}  // namespace

std::string symbol_in(const std::string& expression) {
  constexpr std::string_view kBegin = "Symbol('";
  if (!expression.starts_with(kBegin) || expression.find(')') != expression.size() - 1) return "";
  return expression.substr(kBegin.size(), expression.find('\'', kBegin.size()) - kBegin.size());
}

std::string size_symbol(const std::string& name) {
  return "Symbol('" + name + "', positive=True, integer=True)";
}

std::string unbacked_symbol(const std::string& name) {
  return "Symbol('" + name + "', integer=True)";
}

bool is_unbacked(const std::string& expression) {
  return expression.find("', integer=True)") != std::string::npos;
}

int64_t evaluate(const Size& size, const std::map<std::string, int64_t>& symbols) {
  return size.expression.empty() ? size.value : Reader(size.expression, symbols).read();
}

std::pair<int64_t, int64_t> bounds_of(const Size& size,
                                      const std::map<std::string, Range>& ranges) {
  using Limits = std::numeric_limits<int64_t>;
  if (size.expression.empty()) return {size.value, size.value};
  // The bounds below are correct only if a size never decreases when a symbol grows. Expressions
  // without negative factors have this property.
  if (size.expression.find("Mul(Integer(-") != std::string::npos)
    return {Limits::min(), Limits::max()};
  std::map<std::string, int64_t> smallest;
  std::map<std::string, int64_t> largest;
  bool has_max = true;
  for (const auto& [symbol, range] : ranges) {
    smallest[symbol] = range.min.value_or(1);
    largest[symbol] = range.max.value_or(0);
    if (!range.max && size.expression.find("'" + symbol + "'") != std::string::npos) {
      has_max = false;
    }
  }
  try {
    return {evaluate(size, smallest), has_max ? evaluate(size, largest) : Limits::max()};
  } catch (const std::overflow_error&) {
    return {Limits::min(), Limits::max()};
  }
}

// Integers are the first arguments of sums and products, as in torch.export's programs.

Size operator+(const Size& a, const Size& b) {
  if (is_integer(b, 0)) return a;
  const auto value = sum(a.value, b.value);
  if (!b.expression.empty() || a.expression.empty()) return call("Add", a, b, value);
  const auto [integer, rest] = split_sum(a.expression);
  const Size added{sum(integer, b.value)};
  return added.value == 0 ? Size{value, rest} : call("Add", added, {0, rest}, value);
}

Size operator-(const Size& a, const Size& b) {
  // (b + c) - b is c.
  auto terms = arguments_of(a.expression, "Add");
  if (const auto term = std::find(terms.begin(), terms.end(), text_of(b)); term != terms.end()) {
    terms.erase(term);
    const auto rest = fmt::format("{}", fmt::join(terms, ", "));
    if (terms.size() > 1) return {a.value - b.value, "Add(" + rest + ")"};
    const auto integer = integer_in(rest);
    return integer ? Size{*integer} : Size{a.value - b.value, rest};
  }
  return a + b * Size{-1};
}

Size operator*(const Size& a, const Size& b) {
  if (is_integer(a, 1)) return b;
  if (is_integer(b, 1)) return a;
  const auto value = product(a.value, b.value);
  return b.expression.empty() ? call("Mul", b, a, value) : call("Mul", a, b, value);
}

Size floor_div(const Size& a, int64_t divisor) {
  if (divisor == 1) return a;
  // floor((integer + floor(x / inner)) / divisor) is floor((integer * inner + x) / (inner *
  // divisor)).
  const auto [integer, rest] = split_sum(a.expression);
  const auto quotient = arguments_of(rest, "FloorDiv");
  if (const auto inner = quotient.empty() ? std::nullopt : integer_in(quotient.back())) {
    auto result = floor_div(Size{0, quotient.front()} + Size{product(integer, *inner)},
                            product(*inner, divisor));
    result.value = c10::div_floor_integer(a.value, divisor);
    return result;
  }
  return call("FloorDiv", a, Size{divisor}, c10::div_floor_integer(a.value, divisor));
}

Size min(const Size& a, const Size& b) {
  return call("Min", a, b, std::min(a.value, b.value));
}

Size max(const Size& a, const Size& b) {
  return call("Max", a, b, std::max(a.value, b.value));
}

}  // namespace attend::program
