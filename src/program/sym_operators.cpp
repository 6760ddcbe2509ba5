#include "program/sym_operators.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

namespace attend::program {
namespace {

using c10::IValue;
using Numbers = std::vector<IValue>;

bool is_int(const IValue& value) {
  return value.isInt() || value.isBool();
}
int64_t integer(const IValue& value) {
  return value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
}
double real(const IValue& value) {
  return is_int(value) ? static_cast<double>(integer(value)) : value.toDouble();
}

[[noreturn]] void overflow() {
  throw InputError("the result overflows 64 bits");
}

using CheckedOperator = bool (*)(int64_t, int64_t, int64_t*);  // returns true on overflow

/// Applies `ints` or `reals` to two numbers. Returns an int if both numbers are ints, as Python
/// does.
IValue arithmetic(const Numbers& numbers, CheckedOperator ints, double (*reals)(double, double)) {
  if (!is_int(numbers[0]) || !is_int(numbers[1])) return reals(real(numbers[0]), real(numbers[1]));
  int64_t result = 0;
  if (ints(integer(numbers[0]), integer(numbers[1]), &result)) overflow();
  return result;
}

IValue add(const Numbers& n) {
  return arithmetic(
      n, [](int64_t a, int64_t b, int64_t* c) { return __builtin_add_overflow(a, b, c); },
      [](double a, double b) { return a + b; });
}
IValue subtract(const Numbers& n) {
  return arithmetic(
      n, [](int64_t a, int64_t b, int64_t* c) { return __builtin_sub_overflow(a, b, c); },
      [](double a, double b) { return a - b; });
}
IValue multiply(const Numbers& n) {
  return arithmetic(
      n, [](int64_t a, int64_t b, int64_t* c) { return __builtin_mul_overflow(a, b, c); },
      [](double a, double b) { return a * b; });
}
IValue divide(const Numbers& n) {
  return real(n[0]) / real(n[1]);
}

/// Returns a / b rounded down, as Python's `//` does. The division of C++ rounds towards zero.
int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) throw InputError("division by zero");
  if (a == std::numeric_limits<int64_t>::min() && b == -1) overflow();
  return a / b - static_cast<int64_t>(a % b != 0 && (a < 0) != (b < 0));
}
IValue floor_divide(const Numbers& n) {
  return quotient(integer(n[0]), integer(n[1]));
}
IValue modulo(const Numbers& n) {
  const auto a = integer(n[0]);
  const auto b = integer(n[1]);
  return a - quotient(a, b) * b;
}
/// Shifts by more than 63 bits are undefined behavior in C++, but not in Python, so the number of
/// bits is clamped.
IValue shift_right(const Numbers& n) {
  const auto bits = integer(n[1]);
  if (bits < 0) throw InputError(fmt::format("expected a shift of 0 or more bits, found {}", bits));
  return integer(n[0]) >> std::min<int64_t>(bits, 63);
}
IValue power(const Numbers& n) {
  if (!is_int(n[0]) || !is_int(n[1]) || integer(n[1]) < 0) return std::pow(real(n[0]), real(n[1]));
  const auto base = integer(n[0]);
  const auto exponent = integer(n[1]);
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) overflow();
  }
  return result;
}
IValue negate(const Numbers& n) {
  return subtract({is_int(n[0]) ? IValue(0) : IValue(-0.0), n[0]});
}
IValue truncate(const Numbers& n) {
  if (is_int(n[0])) return integer(n[0]);
  const auto number = std::trunc(real(n[0]));
  if (!(std::abs(number) < 0x1p63)) overflow();
  return static_cast<int64_t>(number);
}
IValue to_real(const Numbers& n) {
  return real(n[0]);
}
IValue square_root(const Numbers& n) {
  return std::sqrt(real(n[0]));
}
/// Compares ints as ints, since doubles do not represent all 64-bit ints.
template <typename Compare>
bool compare(const Numbers& n, Compare is_so) {
  if (is_int(n[0]) && is_int(n[1])) return is_so(integer(n[0]), integer(n[1]));
  return is_so(real(n[0]), real(n[1]));
}
IValue sym_max(const Numbers& n) {
  return compare(n, std::greater_equal<>()) ? n[0] : n[1];
}
IValue sym_min(const Numbers& n) {
  return compare(n, std::less_equal<>()) ? n[0] : n[1];
}
template <typename Compare>
IValue compared(const Numbers& n) {
  return compare(n, Compare());
}
/// As in Python, & and | return a bool if both numbers are bools, else an int.
template <typename Combine>
IValue bitwise(const Numbers& n) {
  const auto bits = Combine()(integer(n[0]), integer(n[1]));
  return n[0].isBool() && n[1].isBool() ? IValue(bits != 0) : IValue(bits);
}
IValue logical_not(const Numbers& n) {
  return integer(n[0]) == 0;
}

struct NumberFunction {
  SymOperator function;
  std::size_t arguments;
};

const std::map<std::string, NumberFunction>& known() {
  static const std::map<std::string, NumberFunction> all{
      {"_operator.add", {add, 2}},
      {"_operator.sub", {subtract, 2}},
      {"_operator.mul", {multiply, 2}},
      {"_operator.truediv", {divide, 2}},
      {"_operator.floordiv", {floor_divide, 2}},
      {"_operator.mod", {modulo, 2}},
      {"_operator.pow", {power, 2}},
      {"_operator.rshift", {shift_right, 2}},
      {"_operator.neg", {negate, 1}},
      {"_operator.eq", {compared<std::equal_to<>>, 2}},
      {"_operator.ne", {compared<std::not_equal_to<>>, 2}},
      {"_operator.lt", {compared<std::less<>>, 2}},
      {"_operator.le", {compared<std::less_equal<>>, 2}},
      {"_operator.gt", {compared<std::greater<>>, 2}},
      {"_operator.ge", {compared<std::greater_equal<>>, 2}},
      {"_operator.and_", {bitwise<std::bit_and<>>, 2}},
      {"_operator.or_", {bitwise<std::bit_or<>>, 2}},
      {"math.trunc", {truncate, 1}},
      {"torch.sym_int", {truncate, 1}},
      {"torch.sym_float", {to_real, 1}},
      {"torch.sym_not", {logical_not, 1}},
      {"torch.sym_max", {sym_max, 2}},
      {"torch.sym_min", {sym_min, 2}},
      {"torch.sym_sqrt", {square_root, 1}},
      {"torch._sym_sqrt", {square_root, 1}},
  };
  return all;
}

}  // namespace

SymOperator find_sym_operator(const std::string& target, std::size_t arguments) {
  const auto found = known().find(target);
  if (found == known().end() || found->second.arguments != arguments) return nullptr;
  return found->second.function;
}

}  // namespace attend::program
