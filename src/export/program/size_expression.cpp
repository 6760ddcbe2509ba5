#include "export/program/size_expression.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
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
    if (function == "FloorDiv") return floor_div(values.at(0), values.at(1));
    if (function == "Min") return *std::min_element(values.begin(), values.end());
    if (function == "Max") return *std::max_element(values.begin(), values.end());
    TORCH_INTERNAL_ASSERT(false, "unknown function ", function);
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

}  // namespace

int64_t floor_div(int64_t value, int64_t divisor) {
  return value / divisor - (value % divisor < 0 ? 1 : 0);
}

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

}  // namespace attend::program
