#include "export/cost_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace attend {
namespace {

double value_of(const OperatorCost& cost, int64_t OperatorCost::*member) {
  return static_cast<double>(std::max<int64_t>(1, cost.*member));
}

}  // namespace

CostModel::CostModel(const SizesByName& base, const OperatorCost& cost) : base_cost_(cost) {
  for (const auto& [dimension, size] : base) costs_[dimension][size] = cost;
}

void CostModel::add(const std::string& dimension, int64_t size, const OperatorCost& cost) {
  costs_.at(dimension)[size] = cost;
}

OperatorCost CostModel::predict(const SizesByName& sizes) const {
  OperatorCost predicted;
  for (const auto member : {&OperatorCost::bytes, &OperatorCost::elements}) {
    auto value = value_of(base_cost_, member);
    for (const auto& [dimension, size] : sizes) value *= growth(dimension, size, member);
    constexpr double kMax = 1e18;
    predicted.*member = static_cast<int64_t>(std::min(value, kMax));
  }
  return predicted;
}

double CostModel::growth(const std::string& dimension, int64_t size,
                         int64_t OperatorCost::*member) const {
  const auto& costs = costs_.at(dimension);
  const auto base = value_of(base_cost_, member);
  const auto measured = costs.lower_bound(size);
  if (measured != costs.end()) return value_of(measured->second, member) / base;
  const auto last = costs.rbegin();
  double power = 2.0;
  if (costs.size() > 1) {
    const auto previous = std::next(last);
    const auto ratio = static_cast<double>(last->first) / static_cast<double>(previous->first);
    const auto seen = value_of(last->second, member) / value_of(previous->second, member);
    // 0.25 is added, since terms with a larger exponent dominate the cost at larger sizes.
    power = std::max(std::log(seen) / std::log(ratio) + 0.25, 1.0);
  }
  return value_of(last->second, member) / base *
         std::pow(static_cast<double>(size) / static_cast<double>(last->first), power);
}

}  // namespace attend
