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
  const auto power_between = [&](const auto& smaller, const auto& larger) {
    return std::log(value_of(larger.second, member) / value_of(smaller.second, member)) /
           std::log(static_cast<double>(larger.first) / static_cast<double>(smaller.first));
  };
  const auto from = [&](const auto& known, double power) {
    const auto ratio = static_cast<double>(size) / static_cast<double>(known.first);
    return value_of(known.second, member) / base * std::pow(ratio, power);
  };
  const auto next = costs.lower_bound(size);
  if (next == costs.end()) {
    const auto last = costs.rbegin();
    if (costs.size() == 1) return from(*last, 2.0);
    // The cost is a sum of powers of the size. At larger sizes, the power with the largest exponent
    // dominates the sum. The exponent estimated between the two largest known sizes may be smaller
    // than this largest exponent, so 0.25 is added.
    return from(*last, std::max(power_between(*std::next(last), *last) + 0.25, 1.0));
  }
  if (next->first == size || next == costs.begin()) return value_of(next->second, member) / base;
  return from(*next, power_between(*std::prev(next), *next));
}

}  // namespace attend
