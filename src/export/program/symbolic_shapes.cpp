#include "export/program/symbolic_shapes.h"

#include <ATen/ops/linalg_lstsq.h>
#include <ATen/ops/tensor.h>
#include <c10/util/generic_math.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace attend::program {
namespace {

using Kind = Expression::Kind;
using Variable = SymbolicShapes::Variable;
using Variables = std::vector<const Variable*>;
using RunValues = std::vector<int64_t>;  // value of a size in each run

constexpr std::size_t kMaxDegree = 3;
/// Maximum number of variables in a polynomial. The number of monomials grows quickly with the
/// number of variables.
constexpr std::size_t kMaxVariables = 3;
/// Products and polynomials of several variables contain only the variables that `recent()`
/// returns: the symbols, and the kNumRecent other variables that were added last. With more
/// variables, there would be too many pairs and triples of variables to try.
constexpr std::size_t kNumRecent = 8;
/// Limits of the quotients (factor * variable + added) / divisor: the divisor is at most
/// kMaxDivisor, and the factor is less than the divisor and, if the divisor is larger than
/// kSmallDivisor, at most kMaxFactor. Divisors are, for example, the strides of convolutions, or
/// the number of which a padded length is a multiple. x - x / 8 is (7 * x + 7) / 8.
constexpr int64_t kMaxDivisor = 1024;
constexpr int64_t kSmallDivisor = 16;
constexpr int64_t kMaxFactor = 3;
/// A clamped polynomial of one variable is tried only if the size has at least kMinValuesOfLine
/// different values that are not clamped. This limit does not apply to `find_step`. A quotient that
/// is clamped, or is multiplied by a number, is tried only if the size has at least
/// kMinValuesOfQuotient values that are not clamped: with only 2 values, many quotients would fit.
constexpr std::size_t kMinValuesOfLine = 2;
constexpr std::size_t kMinValuesOfQuotient = 3;
/// Products and sums of two quotients, which have more parameters, are tried only if the size has
/// at least this number of different values.
constexpr std::size_t kMinValuesOfPair = 6;
/// Multiples of a size are searched as polynomials with integer coefficients: half of a polynomial
/// has this multiple, for example. The quotients have divisors that divide this number.
constexpr int64_t kMultiple = 24;

/// Returns the product modulo 2^64: products of large sizes may overflow, and an overflow of signed
/// integers is undefined behavior.
int64_t wrapping_product(int64_t one, int64_t other) {
  return static_cast<int64_t>(static_cast<uint64_t>(one) * static_cast<uint64_t>(other));
}

int64_t wrapping_sum(int64_t one, int64_t other) {
  return static_cast<int64_t>(static_cast<uint64_t>(one) + static_cast<uint64_t>(other));
}

RunValues product_of(const RunValues& values, const RunValues& others) {
  RunValues products;
  for (std::size_t run = 0; run < values.size(); ++run) {
    products.push_back(wrapping_product(values[run], others[run]));
  }
  return products;
}

/// Returns values + factor * others.
RunValues sum_of(const RunValues& values, int64_t factor, const RunValues& others) {
  RunValues sums;
  for (std::size_t run = 0; run < values.size(); ++run) {
    sums.push_back(wrapping_sum(values[run], wrapping_product(factor, others[run])));
  }
  return sums;
}

/// A product of variables. The monomial without factors is the constant 1.
struct Monomial {
  std::vector<Expression> factors;
  RunValues values;
};

/// Returns all monomials up to `degree`, by increasing degree.
std::vector<Monomial> monomials(const Variables& variables, std::size_t degree) {
  std::vector<Monomial> all{{{}, RunValues(variables.front()->values.size(), 1)}};
  // Index of the last variable in each product. A product is multiplied only by this variable and
  // by later variables, so that x * y does not occur a second time as y * x.
  std::vector<std::size_t> last{0};
  std::size_t begin = 0;
  for (std::size_t factors = 1; factors <= degree; ++factors) {
    const auto end = all.size();
    for (; begin < end; ++begin) {
      for (auto next = last[begin]; next < variables.size(); ++next) {
        auto product = all[begin];
        product.factors.push_back(variables[next]->expression);
        product.values = product_of(product.values, variables[next]->values);
        all.push_back(std::move(product));
        last.push_back(next);
      }
    }
  }
  return all;
}

Expression call_unless_single(Kind function, const std::vector<Expression>& arguments) {
  return arguments.size() == 1 ? arguments.front() : Expression(function, arguments);
}

/// A linear combination of monomials.
struct Polynomial {
  std::vector<std::pair<int64_t, Monomial>> terms;  // integer coefficients, not all 0

  Expression expression() const {
    std::vector<Expression> sum;
    for (const auto& [factor, monomial] : terms) {
      if (factor == 0) continue;
      auto factors = monomial.factors;
      if (factor != 1 || factors.empty()) factors.insert(factors.begin(), Expression(factor));
      sum.push_back(call_unless_single(Kind::mul, factors));
    }
    return call_unless_single(Kind::add, sum);
  }

  RunValues values() const {
    RunValues sums(terms.front().second.values.size(), 0);
    for (const auto& [factor, monomial] : terms) {
      sums = sum_of(sums, factor, monomial.values);
    }
    return sums;
  }
};

using Indices = std::vector<std::size_t>;

RunValues select(const RunValues& values, const Indices& runs) {
  RunValues selected;
  for (const auto run : runs) selected.push_back(values[run]);
  return selected;
}

/// The values of a size in all runs, and optional limits, which are the smallest and the largest of
/// these values. A polynomial is clamped to the limits before it is compared with the values.
struct WantedSize {
  WantedSize(const RunValues& all, bool has_min, bool has_max)
      : values(all),
        min(has_min ? *std::min_element(all.begin(), all.end()) : kSmallest),
        max(has_max ? *std::max_element(all.begin(), all.end()) : kLargest) {
    for (std::size_t run = 0; run < all.size(); ++run) {
      if (all[run] > min && all[run] < max) between.push_back(run);
    }
  }

  bool is_clamped() const { return min != kSmallest || max != kLargest; }
  bool equals(const Polynomial& polynomial) const {
    auto found = polynomial.values();
    for (auto& value : found) value = std::clamp(value, min, max);
    return found == values;
  }
  Expression expression(const Polynomial& polynomial) const {
    auto clamped = polynomial.expression();
    if (min != kSmallest) clamped = Expression(Kind::max, {clamped, Expression(min)});
    if (max != kLargest) clamped = Expression(Kind::min, {clamped, Expression(max)});
    return clamped;
  }

  static constexpr auto kSmallest = std::numeric_limits<int64_t>::min();
  static constexpr auto kLargest = std::numeric_limits<int64_t>::max();
  const RunValues& values;
  int64_t min;
  int64_t max;
  Indices between;  // runs in which the size is not clamped
};

/// Returns the linear combination of `products` that equals `values` in the runs with the indices
/// `runs`. The coefficients are integers. Returns nullopt if there is no such combination, or if
/// the runs do not determine the coefficients.
std::optional<Polynomial> fit(const std::vector<Monomial>& products, const RunValues& values,
                              const Indices& runs) {
  std::vector<double> numbers;
  for (const auto& product : products) {
    for (const auto run : runs) numbers.push_back(static_cast<double>(product.values[run]));
  }
  const auto num_runs = static_cast<int64_t>(runs.size());
  const auto matrix = torch::tensor(numbers, torch::kDouble).view({-1, num_runs}).t();  // (runs, N)
  const auto wanted = select(values, runs);
  const auto right = torch::tensor(wanted, torch::kDouble).view({num_runs, 1});
  const auto [solution, residuals, rank, singular] =
      at::linalg_lstsq(matrix, right, std::nullopt, "gelsd");
  // If the rank is deficient, the runs do not determine the coefficients of these monomials.
  if (rank.item<int64_t>() < matrix.size(1)) return std::nullopt;
  Polynomial polynomial;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto factor = std::llround(solution[static_cast<int64_t>(i)].item<double>());
    if (factor != 0) polynomial.terms.emplace_back(factor, products[i]);
  }
  if (polynomial.terms.empty() || select(polynomial.values(), runs) != wanted) return std::nullopt;
  return polynomial;
}

/// Returns an integer multiplied by at most kMaxDegree variables. This product equals `values` in
/// every run. Returns nullopt if there is no such product. Strides are such products. A product is
/// found even if the runs are too few or too similar to determine the coefficients of a polynomial.
std::optional<Polynomial> find_product(const Variables& variables, const RunValues& values) {
  if (variables.empty()) return std::nullopt;
  for (const auto& product : monomials(variables, kMaxDegree)) {
    const auto divisor = product.values.front();
    if (divisor == 0 || values.front() == 0 || values.front() % divisor != 0) continue;
    Polynomial multiple{{{values.front() / divisor, product}}};
    if (multiple.values() == values) return multiple;
  }
  return std::nullopt;
}

/// Tries each choice of `count` variables. Returns the first polynomial that equals the target, or
/// nullopt if none is found. The coefficients are determined by the runs in `fitted` in which the
/// size is not clamped. `fitted`: indices of runs.
std::optional<Polynomial> find_polynomial(const Variables& variables, std::size_t count,
                                          const WantedSize& target, const Indices& fitted) {
  Indices runs;
  std::set_intersection(target.between.begin(), target.between.end(), fitted.begin(), fitted.end(),
                        std::back_inserter(runs));
  if (runs.empty()) return std::nullopt;
  Variables chosen;
  std::optional<Polynomial> found;
  const std::function<bool(std::size_t)> choose = [&](std::size_t from) {
    if (chosen.size() == count) {
      for (std::size_t degree = 1; degree <= kMaxDegree && !found; ++degree) {
        found = fit(monomials(chosen, degree), target.values, runs);
        if (found && !target.equals(*found)) found.reset();
      }
      return found.has_value();
    }
    for (auto i = from; i < variables.size(); ++i) {
      chosen.push_back(variables[i]);
      if (choose(i + 1)) return true;
      chosen.pop_back();
    }
    return false;
  };
  choose(0);
  return found;
}

bool is_constant(const RunValues& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t value) { return value == values.front(); });
}

/// Returns added + factor * variable.
Polynomial line_of(int64_t added, int64_t factor, const Variable& variable) {
  const Monomial one{{}, RunValues(variable.values.size(), 1)};
  return {{{added, one}, {factor, {{variable.expression}, variable.values}}}};
}

/// Returns a line, added + factor * variable, that equals the target, or nullopt if there is none.
std::optional<Polynomial> find_line(const Variable& variable, const WantedSize& target) {
  const auto x = select(variable.values, target.between);
  const auto y = select(target.values, target.between);
  const auto other = std::find_if(x.begin(), x.end(), [&](int64_t v) { return v != x.front(); });
  if (other == x.end()) return std::nullopt;
  const auto run = static_cast<std::size_t>(other - x.begin());
  const auto factor = (y[run] - y.front()) / (x[run] - x.front());
  auto line = line_of(y.front() - factor * x.front(), factor, variable);
  if (factor == 0 || !target.equals(line)) return std::nullopt;
  return line;
}

/// Returns true if a product of a value and a divisor may overflow.
bool are_large(const RunValues& values) {
  constexpr int64_t kLargest = int64_t{1} << 50;
  return std::any_of(values.begin(), values.end(),
                     [](int64_t value) { return value > kLargest || value < -kLargest; });
}

/// Returns slope * quotient + begin. The quotient is floor((factor * variable + added) / divisor),
/// and `begin` is an integer from 0 to slope - 1. Returns nullopt if no such expression with a
/// divisor of at most `max_divisor` equals the target. Otherwise sets `max_divisor` to the next
/// smaller divisor.
std::optional<Polynomial> find_quotient(const Variable& variable, const WantedSize& target,
                                        int64_t slope, int64_t& max_divisor) {
  const auto x = select(variable.values, target.between);
  auto y = select(target.values, target.between);
  if (are_large(x) || are_large(y)) return std::nullopt;
  const auto begin = y.front() - slope * c10::div_floor_integer(y.front(), slope);
  for (auto& value : y) value = (value - begin) / slope;
  for (int64_t divisor = 2; divisor <= max_divisor; ++divisor) {
    const auto max_factor = divisor <= kSmallDivisor ? divisor - 1 : kMaxFactor;
    for (int64_t factor = 1; factor <= max_factor; ++factor) {
      // The quotient is y if divisor * y <= factor * x + added < divisor * (y + 1).
      auto least = WantedSize::kSmallest;
      auto most = WantedSize::kLargest;
      for (std::size_t run = 0; run < x.size() && least <= most; ++run) {
        const auto rest = divisor * y[run] - factor * x[run];
        least = std::max(least, rest);
        most = std::min(most, rest + divisor - 1);
      }
      if (least > most) continue;
      const auto line = line_of(least, factor, variable).expression();
      Monomial found{{Expression(Kind::floor_div, {line, Expression(divisor)})}, variable.values};
      for (auto& value : found.values) {
        value = c10::div_floor_integer(factor * value + least, divisor);
      }
      const Monomial one{{}, RunValues(found.values.size(), 1)};
      Polynomial size{{{begin, one}, {slope, std::move(found)}}};
      if (!target.equals(size)) continue;
      max_divisor = divisor - 1;
      return size;
    }
  }
  return std::nullopt;
}

/// Returns the greatest common divisor of the differences between the values.
int64_t step_of(const RunValues& values) {
  int64_t step = 0;
  for (const auto value : values) step = std::gcd(step, value - values.front());
  return step;
}

/// Returns the number of different values of `target` in the runs in which the size is not clamped
/// (`target.between`).
std::size_t num_values(const WantedSize& target) {
  const auto values = select(target.values, target.between);
  return std::set<int64_t>(values.begin(), values.end()).size();
}

/// Calls the overload above for each variable: first with slope 1, then with the result of
/// `step_of` as slope. Returns the first expression with the smallest divisor, or nullopt: many
/// quotients with large divisors equal a size in a few runs by coincidence. There are two
/// exceptions if `num_values(target)` is less than kMinValuesOfQuotient: if the target is clamped,
/// returns nullopt; otherwise, tries only slope 1.
std::optional<Polynomial> find_quotient(const Variables& variables, const WantedSize& target) {
  const auto step = step_of(select(target.values, target.between));
  const bool has_few = num_values(target) < kMinValuesOfQuotient;
  if (target.is_clamped() && has_few) return std::nullopt;
  auto max_divisor = kMaxDivisor;
  std::optional<Polynomial> simplest;
  for (const auto* variable : variables) {
    if (auto found = find_quotient(*variable, target, /*slope=*/1, max_divisor)) simplest = found;
    if (step <= 1 || has_few) continue;
    if (auto found = find_quotient(*variable, target, step, max_divisor)) simplest = found;
  }
  return simplest;
}

/// Returns the products of two of the variables.
std::vector<Variable> products_of(const Variables& variables) {
  std::vector<Variable> products;
  for (auto& monomial : monomials(variables, 2)) {
    if (monomial.factors.size() < 2) continue;
    products.push_back({Expression(Kind::mul, monomial.factors), std::move(monomial.values)});
  }
  return products;
}

Variables pointers_to(const std::vector<Variable>& variables) {
  Variables pointers;
  for (const auto& variable : variables) pointers.push_back(&variable);
  return pointers;
}

/// Returns a quotient of a polynomial of one or two variables that equals `values` and has no
/// remainder in any run, such as s0 * (s0 + 1) / 2. Returns nullopt if there is none.
std::optional<Expression> find_exact_quotient(const Variables& variables, const RunValues& values,
                                              const Indices& fitted) {
  if (are_large(values)) return std::nullopt;
  RunValues multiples;
  for (const auto value : values) multiples.push_back(kMultiple * value);
  const WantedSize target(multiples, /*has_min=*/false, /*has_max=*/false);
  for (std::size_t count = 1; count <= 2; ++count) {
    auto polynomial = find_polynomial(variables, count, target, fitted);
    if (!polynomial) continue;
    auto divisor = kMultiple;
    for (const auto& term : polynomial->terms) divisor = std::gcd(divisor, term.first);
    for (auto& term : polynomial->terms) term.first /= divisor;
    return Expression(Kind::floor_div, {polynomial->expression(), Expression(kMultiple / divisor)});
  }
  return std::nullopt;
}

/// Returns the quotients of the variables, rounded down or up, that are not constant. Their
/// divisors are at most kSmallDivisor and increase.
std::vector<Variable> quotients_of(const Variables& variables) {
  std::vector<Variable> quotients;
  for (int64_t divisor = 2; divisor <= kSmallDivisor; ++divisor) {
    for (const auto* variable : variables) {
      if (are_large(variable->values)) continue;
      for (const auto added : {int64_t{0}, divisor - 1}) {
        Variable quotient{Expression(Kind::floor_div, {line_of(added, 1, *variable).expression(),
                                                       Expression(divisor)}),
                          variable->values};
        for (auto& value : quotient.values) value = c10::div_floor_integer(value + added, divisor);
        if (!is_constant(quotient.values)) quotients.push_back(std::move(quotient));
      }
    }
  }
  return quotients;
}

/// Returns an integer multiplied by the product of a quotient and a variable or another quotient,
/// if it equals `values`. Returns nullopt if there is no such product.
std::optional<Expression> find_product_of_quotients(const std::vector<Variable>& quotients,
                                                    Variables others, const RunValues& values) {
  const auto more = pointers_to(quotients);
  others.insert(others.end(), more.begin(), more.end());
  const auto largest =
      static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  for (const auto& quotient : quotients) {
    for (const auto* other : others) {
      const auto product = wrapping_product(quotient.values[largest], other->values[largest]);
      if (product == 0 || values[largest] % product != 0) continue;
      const Polynomial multiple{{{values[largest] / product,
                                  {{quotient.expression, other->expression},
                                   product_of(quotient.values, other->values)}}}};
      if (multiple.values() == values) return multiple.expression();
    }
  }
  return std::nullopt;
}

/// Returns the sum of a quotient, or of its negative, and a line or quotient of another variable,
/// if it equals `values`. Returns nullopt if there is no such sum.
std::optional<Expression> find_sum_of_quotients(const std::vector<Variable>& quotients,
                                                const Variables& others, const RunValues& values) {
  for (const auto& quotient : quotients) {
    for (const int64_t sign : {1, -1}) {
      const auto rest = sum_of(values, -sign, quotient.values);
      const WantedSize target(rest, /*has_min=*/false, /*has_max=*/false);
      for (const auto* other : others) {
        auto found = find_line(*other, target);
        auto max_divisor = kSmallDivisor;
        if (!found) found = find_quotient(*other, target, /*slope=*/1, max_divisor);
        if (!found) continue;
        auto& terms = found->terms;
        terms.insert(terms.begin(), {sign, {{quotient.expression}, quotient.values}});
        return found->expression();
      }
    }
  }
  return std::nullopt;
}

/// Returns added + factor * extremum, plus or minus one of two variables or nothing, if it equals
/// `values`, such as s0 - min(s0, s1). The extremum is the minimum or the maximum of the variables,
/// and differs from each of them in a run. Also returns the extremum. Returns nullopt if there is
/// no such expression.
std::optional<std::pair<Expression, Variable>> find_extremum(const Variables& variables,
                                                             const RunValues& values) {
  for (const auto* one : variables) {
    for (const auto* other : variables) {
      if (one == other) break;
      for (const auto kind : {Kind::min, Kind::max}) {
        Variable extremum{Expression(kind, {other->expression, one->expression}), {}};
        for (std::size_t run = 0; run < values.size(); ++run) {
          const auto [least, most] = std::minmax(one->values[run], other->values[run]);
          extremum.values.push_back(kind == Kind::min ? least : most);
        }
        if (extremum.values == one->values || extremum.values == other->values) continue;
        for (const auto& [factor, added] :
             {std::pair{0, one}, {-1, one}, {1, one}, {-1, other}, {1, other}}) {
          const auto rest = sum_of(values, -factor, added->values);
          auto line = find_line(extremum, {rest, /*has_min=*/false, /*has_max=*/false});
          if (!line) continue;
          line->terms.push_back({factor, {{added->expression}, added->values}});
          return std::pair(line->expression(), extremum);
        }
      }
    }
  }
  return std::nullopt;
}

/// Returns an expression for a size that has two values: the smaller value up to a threshold of a
/// variable, and the larger value above the threshold. An example is the size of x.slice(1, 2, 3).
/// Returns nullopt for other sizes. Also returns nullopt unless the runs show the exact threshold
/// n: there must be a run in which the variable is n and the size is the smaller value, and a run
/// in which the variable is n + 1 and the size is the larger value.
std::optional<Expression> find_step(const Variables& variables, const RunValues& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  for (const auto* variable : variables) {
    // `last` becomes the largest value of the variable in the runs in which the size is *low.
    // `first` becomes the smallest value of the variable in the runs in which the size is *high.
    auto last = WantedSize::kSmallest;
    auto first = WantedSize::kLargest;
    bool is_step = true;
    for (std::size_t run = 0; run < values.size(); ++run) {
      const auto value = variable->values[run];
      if (values[run] == *low) last = std::max(last, value);
      if (values[run] == *high) first = std::min(first, value);
      is_step = is_step && (values[run] == *low || values[run] == *high);
    }
    if (!is_step || first != last + 1) continue;
    const WantedSize target(values, /*has_min=*/true, /*has_max=*/true);
    const auto slope = *high - *low;
    return target.expression(line_of(*low - slope * last, slope, *variable));
  }
  return std::nullopt;
}

/// Returns an expression begin + (added + factor * variable) mod divisor, with a factor of 1 or -1,
/// that equals `values`, or nullopt if there is none. An example is the number of elements that pad
/// a size to a multiple of 8: (-size) mod 8.
std::optional<Expression> find_remainder(const Variables& variables, const RunValues& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const auto begin = *low;
  if (are_large(values)) return std::nullopt;
  const auto least = *high - begin + 1;  // smallest divisor
  for (const auto* variable : variables) {
    if (are_large(variable->values)) continue;
    for (const int64_t factor : {-1, 1}) {
      // The divisor divides all differences between `values` and factor * variable.
      RunValues rests;
      for (std::size_t run = 0; run < values.size(); ++run) {
        rests.push_back(values[run] - factor * variable->values[run]);
      }
      const auto common = step_of(rests);  // 0 for a line
      auto divisor = least;
      while (divisor <= std::min(common, kMaxDivisor) && common % divisor != 0) ++divisor;
      if (divisor > std::min(common, kMaxDivisor)) continue;
      const auto rest = rests.front() - begin;
      const auto added = rest - divisor * c10::div_floor_integer(rest, divisor);
      const Expression remainder(
          Kind::mod, {line_of(added, factor, *variable).expression(), Expression(divisor)});
      return begin == 0 ? remainder : Expression(Kind::add, {Expression(begin), remainder});
    }
  }
  return std::nullopt;
}

/// Returns the square root of a variable, rounded down, or the square of this root, if it equals
/// `values`. Returns nullopt if there is no such variable.
std::optional<Expression> find_root(const Variables& variables, const RunValues& values) {
  for (const auto* variable : variables) {
    const Expression root(Kind::sqrt, {variable->expression});
    RunValues roots, squares;
    for (const auto value : variable->values) {
      roots.push_back(
          std::llround(std::floor(std::sqrt(std::max(static_cast<double>(value), 0.0)))));
      squares.push_back(roots.back() * roots.back());
    }
    if (roots == values) return root;
    if (squares == values) return Expression(Kind::mul, {root, root});
  }
  return std::nullopt;
}

}  // namespace

SymbolicShapes::SymbolicShapes(const std::vector<std::string>& symbols,
                               const std::vector<RunValues>& values,
                               std::vector<std::size_t> fitted)
    : fitted_(std::move(fitted)), num_symbols_(symbols.size()) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    variables_.push_back({Expression::symbol(symbols[i]), values[i]});
    found_.emplace(values[i], variables_.back().expression);
  }
}

void SymbolicShapes::add(const Expression& expression, const RunValues& values) {
  auto& found = found_[values];
  if (found || is_constant(values)) return;
  found = expression;
  variables_.push_back({expression, values});
}

std::optional<Size> SymbolicShapes::find(const RunValues& values) {
  if (is_constant(values)) return Size{.value = values.front(), .expression = {}};
  const auto [found, is_new] = found_.try_emplace(values);
  if (is_new) found->second = find_expression(values);
  if (!found->second) return std::nullopt;
  return Size{.value = values.front(), .expression = *found->second};
}

std::optional<Expression> SymbolicShapes::find_expression(const RunValues& values) {
  const WantedSize plain(values, /*has_min=*/false, /*has_max=*/false);
  for (const auto* variable : all()) {
    if (const auto line = find_line(*variable, plain)) return line->expression();
  }
  if (const auto found = find_polynomial(all(), /*count=*/1, plain, fitted_))
    return found->expression();
  // Expressions found below become variables of later expressions, since strides are products of
  // sizes, and the size of a concatenation may be sliced or divided. A product with an integer
  // factor does not become a variable.
  if (const auto found = find_product(recent(), values)) {
    if (found->terms.front().first == 1) sums_.push_back({found->expression(), values});
    return found->expression();
  }
  if (auto found = find_in_one_variable(values)) {
    variables_.push_back({*found, values});
    return found;
  }
  for (std::size_t count = 2; count <= kMaxVariables; ++count) {
    if (const auto found = find_polynomial(recent(), count, plain, fitted_)) {
      sums_.push_back({found->expression(), values});
      return found->expression();
    }
  }
  auto found = find_in_two_variables(values);
  if (found) variables_.push_back({*found, values});
  return found;
}

/// Returns an expression that equals `values` in all runs, or nullopt if none is found. Searches
/// for the minimum or maximum of two variables, then for a quotient of a polynomial or of a
/// product, and then for products and sums of two quotients.
std::optional<Expression> SymbolicShapes::find_in_two_variables(const RunValues& values) {
  if (are_large(values)) return std::nullopt;
  const auto variables = recent();
  if (const auto found = find_extremum(variables, values)) {
    const auto& [expression, extremum] = *found;
    add(extremum.expression, extremum.values);  // products with it are found later
    return expression;
  }
  if (auto found = find_exact_quotient(variables, values, fitted_)) return found;
  const WantedSize plain(values, /*has_min=*/false, /*has_max=*/false);
  if (num_values(plain) < kMinValuesOfPair) return std::nullopt;
  const auto products = products_of(variables);
  if (const auto found = find_quotient(pointers_to(products), plain)) return found->expression();
  // Of the symbols alone, since there are many pairs of quotients.
  const Variables symbols(variables.begin(),
                          variables.begin() + static_cast<std::ptrdiff_t>(num_symbols_));
  const auto quotients = quotients_of(symbols);
  if (auto found = find_product_of_quotients(quotients, variables, values)) return found;
  return find_sum_of_quotients(quotients, variables, values);
}

/// Returns an expression of one variable that equals `values` in all runs, or nullopt if none is
/// found. Searches for a clamped polynomial, then for a step (see `find_step`), a quotient, a
/// remainder, a square root, and then for a clamped quotient.
std::optional<Expression> SymbolicShapes::find_in_one_variable(const RunValues& values) const {
  std::vector<WantedSize> clamped;
  for (const auto& [has_min, has_max] : {std::pair{false, true}, {true, false}, {true, true}}) {
    WantedSize target(values, has_min, has_max);
    if (num_values(target) >= kMinValuesOfLine) clamped.push_back(std::move(target));
  }
  for (const auto& target : clamped) {
    for (const auto* variable : all()) {
      if (const auto line = find_line(*variable, target)) return target.expression(*line);
    }
    const auto found = find_polynomial(all(), /*count=*/1, target, fitted_);
    if (found) return target.expression(*found);
  }
  if (const auto found = find_step(all(), values)) return found;
  auto variables = recent();
  for (const auto& sum : sums_) variables.push_back(&sum);
  const WantedSize plain(values, /*has_min=*/false, /*has_max=*/false);
  if (const auto found = find_quotient(variables, plain)) return found->expression();
  if (const auto found = find_remainder(variables, values)) return found;
  if (const auto found = find_root(variables, values)) return found;
  for (const auto& target : clamped) {
    if (const auto found = find_quotient(variables, target)) return target.expression(*found);
  }
  return std::nullopt;
}

Variables SymbolicShapes::all() const {
  Variables pointers;
  for (const auto& variable : variables_) pointers.push_back(&variable);
  for (const auto& sum : sums_) pointers.push_back(&sum);
  return pointers;
}

Variables SymbolicShapes::recent() const {
  Variables pointers;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (i < num_symbols_ || i + kNumRecent >= variables_.size()) pointers.push_back(&variables_[i]);
  }
  return pointers;
}

}  // namespace attend::program
