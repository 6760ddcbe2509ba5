#include "export/program/symbolic_shapes.h"

#include <ATen/ops/linalg_lstsq.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

namespace attend::program {
namespace {

using RunValues = std::vector<int64_t>;  // value of a size in each run

constexpr std::size_t kMaxDegree = 3;
/// Maximum number of variables in a polynomial. The number of monomials grows quickly with it.
constexpr std::size_t kMaxVariables = 3;
/// Polynomials of several variables contain only symbols and the latest of the other variables,
/// since the number of pairs and triples grows quickly.
constexpr std::size_t kNumRecent = 8;
/// Limits of the quotients (factor * variable + added) / divisor. The divisor 64 covers the strides
/// of image patches.
constexpr int64_t kMaxDivisor = 64;
constexpr int64_t kMaxFactor = 4;

/// Products of large sizes may overflow. They are computed modulo 2^64, as unsigned numbers are.
int64_t wrapping_product(int64_t one, int64_t other) {
  return static_cast<int64_t>(static_cast<uint64_t>(one) * static_cast<uint64_t>(other));
}

int64_t wrapping_sum(int64_t one, int64_t other) {
  return static_cast<int64_t>(static_cast<uint64_t>(one) + static_cast<uint64_t>(other));
}

/// A product of variables. The constant 1 has no factors.
struct Monomial {
  std::vector<std::string> factors;
  RunValues values;
};

/// Returns all monomials up to `degree`, by increasing degree.
template <typename Variable>
std::vector<Monomial> monomials(const std::vector<const Variable*>& variables, std::size_t degree) {
  std::vector<Monomial> all{{{}, RunValues(variables.front()->values.size(), 1)}};
  // Index of the last variable in each product. A product is multiplied only by this variable and
  // later ones, so that x * y does not occur a second time as y * x.
  std::vector<std::size_t> last{0};
  std::size_t begin = 0;
  for (std::size_t factors = 1; factors <= degree; ++factors) {
    const auto end = all.size();
    for (; begin < end; ++begin) {
      for (auto next = last[begin]; next < variables.size(); ++next) {
        auto product = all[begin];
        product.factors.push_back(variables[next]->text);
        const auto& factor = variables[next]->values;
        for (std::size_t run = 0; run < factor.size(); ++run) {
          product.values[run] = wrapping_product(product.values[run], factor[run]);
        }
        all.push_back(std::move(product));
        last.push_back(next);
      }
    }
  }
  return all;
}

/// A linear combination of monomials.
struct Polynomial {
  std::vector<std::pair<int64_t, Monomial>> terms;  // integer coefficients, not all 0

  std::string text() const {
    std::vector<std::string> texts;
    for (const auto& [factor, monomial] : terms) {
      if (factor == 0) continue;
      auto factors = monomial.factors;
      if (factor != 1 || factors.empty()) {
        factors.insert(factors.begin(), fmt::format("Integer({})", factor));
      }
      texts.push_back(factors.size() == 1 ? factors.front()
                                          : fmt::format("Mul({})", fmt::join(factors, ", ")));
    }
    return texts.size() == 1 ? texts.front() : fmt::format("Add({})", fmt::join(texts, ", "));
  }

  RunValues values() const {
    RunValues sums(terms.front().second.values.size(), 0);
    for (const auto& [factor, monomial] : terms) {
      for (std::size_t run = 0; run < sums.size(); ++run) {
        sums[run] = wrapping_sum(sums[run], wrapping_product(factor, monomial.values[run]));
      }
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

/// Returns the linear combination of `products` with integer coefficients that equals `values` in
/// the runs with the indices `runs`, or nullopt if there is none.
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

/// Returns the product of at most kMaxDegree variables and an integer that equals `values` in every
/// run, or nullopt if there is none. Strides are such products. They are found even if the runs are
/// too few or too similar to determine the coefficients of a polynomial.
template <typename Variable>
std::optional<Polynomial> find_product(const std::vector<const Variable*>& variables,
                                       const RunValues& values) {
  for (const auto& product : monomials(variables, kMaxDegree)) {
    const auto divisor = product.values.front();
    if (divisor == 0 || values.front() == 0 || values.front() % divisor != 0) continue;
    Polynomial multiple{{{values.front() / divisor, product}}};
    if (multiple.values() == values) return multiple;
  }
  return std::nullopt;
}

/// Returns the polynomial of `count` variables that equals `values` in the runs with the indices
/// `runs`, or nullopt if there is none. `is_valid` checks a polynomial in the other runs.
template <typename Variable, typename IsValid>
std::optional<Polynomial> find_polynomial(const std::vector<const Variable*>& variables,
                                          std::size_t count, const RunValues& values,
                                          const Indices& runs, const IsValid& is_valid) {
  if (runs.empty()) return std::nullopt;
  std::vector<const Variable*> chosen;
  std::optional<Polynomial> found;
  const std::function<bool(std::size_t)> choose = [&](std::size_t from) {
    if (chosen.size() == count) {
      for (std::size_t degree = 1; degree <= kMaxDegree && !found; ++degree) {
        found = fit(monomials(chosen, degree), values, runs);
        if (found && !is_valid(*found)) found.reset();
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

/// Returns a variable plus a number, or a polynomial of a variable, that equals `values` in the
/// runs with the indices `between` and is valid.
template <typename Variable, typename IsValid>
std::optional<Polynomial> find_polynomial_between(const std::vector<const Variable*>& variables,
                                                  const Indices& all_fitted,
                                                  const RunValues& values, const Indices& between,
                                                  const IsValid& is_valid) {
  // Many functions agree in one or two runs.
  constexpr std::size_t kMinRuns = 3;
  if (between.size() < kMinRuns) return std::nullopt;
  const Monomial one{{}, RunValues(values.size(), 1)};
  for (const auto* variable : variables) {
    const auto added = values[between.front()] - variable->values[between.front()];
    const Polynomial shifted{{{added, one}, {1, {{variable->text}, variable->values}}}};
    if (is_valid(shifted)) return shifted;
  }
  Indices fitted;
  std::set_intersection(between.begin(), between.end(), all_fitted.begin(), all_fitted.end(),
                        std::back_inserter(fitted));
  return find_polynomial(variables, /*count=*/1, values, fitted, is_valid);
}

bool is_constant(const RunValues& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t value) { return value == values.front(); });
}

RunValues quotient_of(const RunValues& values, int64_t factor, int64_t added, int64_t divisor) {
  RunValues quotient;
  for (const auto value : values) quotient.push_back((factor * value + added) / divisor);
  return quotient;
}

struct Line {
  int64_t slope;
  int64_t begin;
};

/// Returns the line with slope * x + begin = y in every run, or nullopt if there is none.
std::optional<Line> line_through(const RunValues& x, const RunValues& y) {
  const auto other = std::find_if(x.begin(), x.end(), [&](int64_t v) { return v != x.front(); });
  if (other == x.end()) return std::nullopt;
  const auto run = other - x.begin();
  const auto slope = (y[static_cast<std::size_t>(run)] - y.front()) / (*other - x.front());
  const Line line{slope, y.front() - slope * x.front()};
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (line.slope * x[i] + line.begin != y[i]) return std::nullopt;
  }
  return line;
}

}  // namespace

SymbolicShapes::SymbolicShapes(const std::vector<std::string>& symbols,
                               const std::vector<RunValues>& values,
                               std::vector<std::size_t> fitted)
    : fitted_(std::move(fitted)), num_symbols_(symbols.size()) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    variables_.push_back(
        {fmt::format("Symbol('{}', positive=True, integer=True)", symbols[i]), values[i]});
  }
}

std::optional<Size> SymbolicShapes::find(const RunValues& values) {
  if (is_constant(values)) return Size{.value = values.front(), .expression = {}};
  const auto [found, is_new] = found_.try_emplace(values);
  if (is_new) found->second = find_expression(values);
  if (!found->second) return std::nullopt;
  return Size{.value = values.front(), .expression = *found->second};
}

std::optional<std::string> SymbolicShapes::find_expression(const RunValues& values) {
  const auto is_valid = [&](const Polynomial& polynomial) { return polynomial.values() == values; };
  if (const auto found = find_polynomial(all(), /*count=*/1, values, fitted_, is_valid)) {
    return found->text();
  }
  if (const auto found = find_product(recent(), values)) return found->text();
  if (const auto clamped = find_clamped(values)) return clamped;
  if (const auto found = find_quotient(values)) return found;
  for (std::size_t count = 2; count <= kMaxVariables; ++count) {
    const auto found = find_polynomial(recent(), count, values, fitted_, is_valid);
    if (!found) continue;
    // The size may be sliced or divided again, such as the size of a concatenation.
    sums_.push_back({found->text(), values});
    return sums_.back().text;
  }
  return std::nullopt;
}

std::vector<const SymbolicShapes::Variable*> SymbolicShapes::all() const {
  std::vector<const Variable*> pointers;
  for (const auto& variable : variables_) pointers.push_back(&variable);
  for (const auto& sum : sums_) pointers.push_back(&sum);
  return pointers;
}

std::vector<const SymbolicShapes::Variable*> SymbolicShapes::recent() const {
  std::vector<const Variable*> pointers;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (i < num_symbols_ || i + kNumRecent >= variables_.size()) pointers.push_back(&variables_[i]);
  }
  return pointers;
}

/// Returns Min(p, c), Max(p, c) or Min(Max(p, c), d), where p is a polynomial of one variable and c
/// and d are numbers, or nullopt if no such expression equals `values` in every run. Adds the
/// expression to the variables.
std::optional<std::string> SymbolicShapes::find_clamped(const RunValues& values) {
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  for (const auto& [has_min, has_max] : {std::pair{false, true}, {true, false}, {true, true}}) {
    const auto clamp = [&, has_min = has_min, has_max = has_max](int64_t value) {
      if (has_min) value = std::max(value, *min);
      return has_max ? std::min(value, *max) : value;
    };
    Indices between;  // runs in which the value is that of the polynomial
    for (std::size_t run = 0; run < values.size(); ++run) {
      const bool is_clamped = (has_min && values[run] == *min) || (has_max && values[run] == *max);
      if (!is_clamped) between.push_back(run);
    }
    const auto is_valid = [&](const Polynomial& polynomial) {
      auto sums = polynomial.values();
      std::transform(sums.begin(), sums.end(), sums.begin(), clamp);
      return sums == values;
    };
    const auto polynomial = find_polynomial_between(all(), fitted_, values, between, is_valid);
    if (!polynomial) continue;
    auto text = polynomial->text();
    if (has_min) text = fmt::format("Max({}, Integer({}))", text, *min);
    if (has_max) text = fmt::format("Min({}, Integer({}))", text, *max);
    variables_.push_back({text, values});
    return text;
  }
  return std::nullopt;
}

/// Returns slope * quotient + begin, where the quotient is a floor division of a variable, or
/// nullopt if no such expression equals `values` in every run. Adds the expression to the variables,
/// so that later expressions, such as strides, can be polynomials of it.
std::optional<std::string> SymbolicShapes::find_quotient(const RunValues& values) {
  auto variables = recent();
  for (const auto& sum : sums_) variables.push_back(&sum);
  for (const auto* variable : variables) {
    for (int64_t divisor = 2; divisor <= kMaxDivisor; ++divisor) {
      for (int64_t factor = 1; factor < std::min(divisor, kMaxFactor); ++factor) {
        for (int64_t added = 0; added < divisor; ++added) {
          auto quotient = quotient_of(variable->values, factor, added, divisor);
          const auto line = line_through(quotient, values);
          if (!line) continue;
          const Monomial one{{}, RunValues(values.size(), 1)};
          const Polynomial dividend{{{added, one}, {factor, {{variable->text}, variable->values}}}};
          const auto text = fmt::format("FloorDiv({}, Integer({}))", dividend.text(), divisor);
          const Polynomial size{{{line->begin, one}, {line->slope, {{text}, std::move(quotient)}}}};
          variables_.push_back({size.text(), values});
          return variables_.back().text;
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace attend::program
