#include "export/program/symbolic_sizes.h"

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

using InRuns = std::vector<int64_t>;  // what a size was in each run

constexpr std::size_t kDegree = 3;
/// Sizes of four or more variables are left out: the number of monomials grows quickly.
constexpr std::size_t kVariables = 3;
/// Of quotients (factor * variable + added) / divisor, up to these. Patches of images are so large.
constexpr int64_t kDivisor = 64;
constexpr int64_t kFactor = 4;

/// A product of variables, each as often as it stands there; none for the constant.
struct Monomial {
  std::vector<std::string> factors;
  InRuns values;
};

/// All of up to `degree` factors, the fewer first.
template <typename Variable>
std::vector<Monomial> monomials(const std::vector<const Variable*>& variables, std::size_t degree) {
  std::vector<Monomial> all{{{}, InRuns(variables.front()->values.size(), 1)}};
  std::vector<std::size_t> last{0};  // of each, so that no product stands there in two orders
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

/// The sum of monomials times whole numbers that is `values` in every run.
std::optional<std::string> fit(const std::vector<Monomial>& products, const InRuns& values) {
  std::vector<double> numbers;
  for (const auto& product : products) {
    numbers.insert(numbers.end(), product.values.begin(), product.values.end());
  }
  const auto runs = static_cast<int64_t>(values.size());
  const auto matrix = torch::tensor(numbers, torch::kDouble).view({-1, runs}).t();  // (runs, N)
  const auto right = torch::tensor(InRuns(values), torch::kDouble).view({runs, 1});
  const auto [solution, residuals, rank, singular] =
      at::linalg_lstsq(matrix, right, std::nullopt, "gelsd");
  // Otherwise the runs do not tell these monomials apart.
  if (rank.item<int64_t>() < matrix.size(1)) return std::nullopt;
  std::vector<std::pair<int64_t, const Monomial*>> terms;
  InRuns sums(values.size(), 0);
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

bool is_constant(const InRuns& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t value) { return value == values.front(); });
}

InRuns quotient_of(const InRuns& values, int64_t factor, int64_t added, int64_t divisor) {
  InRuns quotient;
  for (const auto value : values) quotient.push_back((factor * value + added) / divisor);
  return quotient;
}

struct Line {
  int64_t slope;
  int64_t begin;
};

/// slope * x + begin, of whole numbers, that is y in every run.
std::optional<Line> line_through(const InRuns& x, const InRuns& y) {
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

SymbolicSizes::SymbolicSizes(const std::vector<std::string>& symbols,
                             const std::vector<InRuns>& values) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    variables_.push_back(
        {fmt::format("Symbol('{}', positive=True, integer=True)", symbols[i]), values[i]});
  }
}

std::optional<Size> SymbolicSizes::find(const InRuns& values) {
  if (is_constant(values)) return Size{.value = values.front(), .expression = {}};
  const auto [found, is_new] = found_.try_emplace(values);
  if (is_new) found->second = find_expression(values);
  if (!found->second) return std::nullopt;
  return Size{.value = values.front(), .expression = *found->second};
}

std::optional<std::string> SymbolicSizes::find_expression(const InRuns& values) {
  auto found = find_polynomial(values);
  return found ? found : find_quotient(values);
}

/// With as few variables as it takes, and of the least degree.
std::optional<std::string> SymbolicSizes::find_polynomial(const InRuns& values) const {
  std::vector<const Variable*> chosen;
  std::optional<std::string> found;
  const std::function<bool(std::size_t, std::size_t)> choose = [&](std::size_t from,
                                                                   std::size_t count) {
    if (count == 0) {
      for (std::size_t degree = 1; degree <= kDegree && !found; ++degree) {
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
  for (std::size_t count = 1; count <= std::min(kVariables, variables_.size()); ++count) {
    if (choose(0, count)) break;
  }
  return found;
}

/// A quotient becomes a variable: what is computed from it is a polynomial of it.
std::optional<std::string> SymbolicSizes::find_quotient(const InRuns& values) {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    for (int64_t divisor = 2; divisor <= kDivisor; ++divisor) {
      for (int64_t factor = 1; factor < std::min(divisor, kFactor); ++factor) {
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
