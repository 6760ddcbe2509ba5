#include "export/pt2/symbolic_sizes.h"

#include <ATen/ops/linalg_lstsq.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

namespace attend::pt2 {
namespace {

constexpr std::size_t kDegree = 3;

/// The symbols of a product, by their places, in order; none for the constant.
using Monomial = std::vector<std::size_t>;

/// Of all symbols, the lower degrees first.
std::vector<Monomial> monomials(std::size_t symbols) {
  std::vector<Monomial> all{{}};
  for (std::size_t begin = 0, degree = 1; degree <= kDegree; ++degree) {
    const auto end = all.size();
    for (; begin < end; ++begin) {
      const auto least = all[begin].empty() ? 0 : all[begin].back();
      for (auto symbol = least; symbol < symbols; ++symbol) {
        auto product = all[begin];
        product.push_back(symbol);
        all.push_back(std::move(product));
      }
    }
  }
  return all;
}

int64_t value_of(const Monomial& monomial, const std::vector<int64_t>& symbols) {
  int64_t value = 1;
  for (const auto symbol : monomial) value *= symbols[symbol];
  return value;
}

std::string text_of(const Symbol& symbol) {
  return fmt::format("Symbol('{}', positive=True, integer=True)", symbol.name);
}

/// As SymPy writes it and reads it again.
std::string text_of(const std::vector<std::pair<int64_t, Monomial>>& terms,
                    const std::vector<Symbol>& symbols) {
  std::vector<std::string> texts;
  for (const auto& [factor, monomial] : terms) {
    std::vector<std::string> factors;
    if (factor != 1 || monomial.empty()) factors.push_back(fmt::format("Integer({})", factor));
    for (const auto symbol : monomial) factors.push_back(text_of(symbols[symbol]));
    texts.push_back(factors.size() == 1 ? factors.front()
                                        : fmt::format("Mul({})", fmt::join(factors, ", ")));
  }
  return texts.size() == 1 ? texts.front() : fmt::format("Add({})", fmt::join(texts, ", "));
}

/// The coefficients of the monomials that fit best.
std::vector<double> fit(const std::vector<Monomial>& products, const std::vector<Sample>& samples) {
  std::vector<double> values;
  std::vector<double> sizes;
  for (const auto& sample : samples) {
    for (const auto& product : products) {
      values.push_back(static_cast<double>(value_of(product, sample.symbols)));
    }
    sizes.push_back(static_cast<double>(sample.size));
  }
  const auto rows = static_cast<int64_t>(samples.size());
  const auto matrix = torch::tensor(values, torch::kDouble).view({rows, -1});  // (rows, products)
  const auto right = torch::tensor(sizes, torch::kDouble).view({rows, 1});     // (rows, 1)
  const auto solution =
      std::get<0>(at::linalg_lstsq(matrix, right, std::nullopt, "gelsd")).flatten();
  const auto* data = solution.const_data_ptr<double>();
  return {data, data + solution.numel()};
}

}  // namespace

std::optional<Size> fit_size(const std::vector<Symbol>& symbols,
                             const std::vector<Sample>& samples) {
  const auto hint = samples.front().size;
  const auto same = [&](const Sample& sample) { return sample.size == hint; };
  if (std::all_of(samples.begin(), samples.end(), same))
    return Size{.value = hint, .expression = {}};
  const auto products = monomials(symbols.size());
  const auto coefficients = fit(products, samples);
  std::vector<std::pair<int64_t, Monomial>> terms;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto factor = std::llround(coefficients[i]);
    if (factor != 0) terms.emplace_back(factor, products[i]);
  }
  const auto holds = [&](const Sample& sample) {
    int64_t sum = 0;
    for (const auto& [factor, product] : terms) sum += factor * value_of(product, sample.symbols);
    return sum == sample.size;
  };
  if (!std::all_of(samples.begin(), samples.end(), holds)) return std::nullopt;
  return Size{.value = hint, .expression = text_of(terms, symbols)};
}

}  // namespace attend::pt2
