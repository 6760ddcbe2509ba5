#include "export/program/symbolic_shapes.h"

#include <ATen/ops/linalg_lstsq.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace attend::program {
namespace {

using RunValues = std::vector<int64_t>;  // value of a size in each run

constexpr std::size_t kMaxDegree = 3;
/// Maximum number of variables in a polynomial. The number of monomials grows quickly with it.
constexpr std::size_t kMaxVariables = 3;
/// Limits of the quotients (factor * variable + added) / divisor. The divisor 64 covers the strides
/// of image patches.
constexpr int64_t kMaxDivisor = 64;
constexpr int64_t kMaxFactor = 4;

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
        std::transform(product.values.begin(), product.values.end(),
                       variables[next]->values.begin(), product.values.begin(), std::multiplies());
        all.push_back(std::move(product));
        last.push_back(next);
      }
    }
  }
  return all;
}

std::string text_of(const std::vector<std::pair<int64_t, const Monomial*>>& terms) {
  std::vector<std::string> texts;
  for (const auto& [factor, monomial] : terms) {
    auto factors = monomial->factors;
    if (factor != 1 || factors.empty()) {
      factors.insert(factors.begin(), fmt::format("Integer({})", factor));
    }
    texts.push_back(factors.size() == 1 ? factors.front()
                                        : fmt::format("Mul({})", fmt::join(factors, ", ")));
  }
  return texts.size() == 1 ? texts.front() : fmt::format("Add({})", fmt::join(texts, ", "));
}

/// Returns the linear combination of `products` with integer coefficients that equals `values` in
/// every run, or nullopt if there is none.
std::optional<std::string> fit(const std::vector<Monomial>& products, const RunValues& values) {
  std::vector<double> numbers;
  for (const auto& product : products) {
    numbers.insert(numbers.end(), product.values.begin(), product.values.end());
  }
  const auto runs = static_cast<int64_t>(values.size());
  const auto matrix = torch::tensor(numbers, torch::kDouble).view({-1, runs}).t();  // (runs, N)
  const auto right = torch::tensor(RunValues(values), torch::kDouble).view({runs, 1});
  const auto [solution, residuals, rank, singular] =
      at::linalg_lstsq(matrix, right, std::nullopt, "gelsd");
  // If the rank is deficient, the runs do not determine the coefficients of these monomials.
  if (rank.item<int64_t>() < matrix.size(1)) return std::nullopt;
  std::vector<std::pair<int64_t, const Monomial*>> terms;
  RunValues sums(values.size(), 0);
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto factor = std::llround(solution[static_cast<int64_t>(i)].item<double>());
    if (factor == 0) continue;
    terms.emplace_back(factor, &products[i]);
    for (std::size_t run = 0; run < sums.size(); ++run) {
      sums[run] += factor * products[i].values[run];
    }
  }
  if (sums != values) return std::nullopt;
  return text_of(terms);
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
                               const std::vector<RunValues>& values) {
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
  auto found = find_polynomial(values);
  return found ? found : find_quotient(values);
}

/// Returns a polynomial that equals `values` in every run, or nullopt if there is none. Tries
/// polynomials with fewer variables first.
std::optional<std::string> SymbolicShapes::find_polynomial(const RunValues& values) const {
  std::vector<const Variable*> chosen;
  std::optional<std::string> found;
  const std::function<bool(std::size_t, std::size_t)> choose = [&](std::size_t from,
                                                                   std::size_t count) {
    if (count == 0) {
      for (std::size_t degree = 1; degree <= kMaxDegree && !found; ++degree) {
        found = fit(monomials(chosen, degree), values);
      }
      return found.has_value();
    }
    for (auto i = from; i < variables_.size(); ++i) {
      chosen.push_back(&variables_[i]);
      if (choose(i + 1, count - 1)) return true;
      chosen.pop_back();
    }
    return false;
  };
  for (std::size_t count = 1; count <= std::min(kMaxVariables, variables_.size()); ++count) {
    if (choose(0, count)) break;
  }
  return found;
}

/// Returns slope * quotient + begin, where the quotient is a floor division of a variable, or
/// nullopt if no such expression equals `values` in every run. Adds the quotient to the variables,
/// so that later expressions can be polynomials of the quotient.
std::optional<std::string> SymbolicShapes::find_quotient(const RunValues& values) {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    for (int64_t divisor = 2; divisor <= kMaxDivisor; ++divisor) {
      for (int64_t factor = 1; factor < std::min(divisor, kMaxFactor); ++factor) {
        for (int64_t added = 0; added < divisor; ++added) {
          auto quotient = quotient_of(variables_[i].values, factor, added, divisor);
          const auto line = line_through(quotient, values);
          if (!line) continue;
          const auto text =
              fmt::format("FloorDiv(Add(Mul(Integer({}), {}), Integer({})), Integer({}))", factor,
                          variables_[i].text, added, divisor);
          variables_.push_back({text, std::move(quotient)});
          return fmt::format("Add(Mul(Integer({}), {}), Integer({}))", line->slope, text,
                             line->begin);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace attend::program
