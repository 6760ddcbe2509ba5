#include "export/cost_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

namespace attend {
namespace {

thread_local OperatorCost* current = nullptr;

/// Storages of the inputs of a running operator.
struct InputStorages : at::ObserverContext {
  std::vector<const void*> storages;
};

/// Calls `function` for each tensor in a value.
template <typename Function>
void for_each_tensor(const c10::IValue& value, const Function& function) {
  if (value.isTensorList()) {
    for (const torch::Tensor& tensor : value.toTensorList()) for_each_tensor(tensor, function);
  } else if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage()) {
    function(value.toTensor());
  }
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  auto inputs = std::make_unique<InputStorages>();
  for (const auto& input : function.inputs()) {
    for_each_tensor(input, [&](const torch::Tensor& tensor) {
      inputs->storages.push_back(tensor.storage().unsafeGetStorageImpl());
    });
  }
  return inputs;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  // If the thread of the guard starts other threads, LibTorch copies the callbacks to them. In the
  // other threads, `current` is nullptr, and costs are not recorded.
  if (current == nullptr) return;
  const auto& inputs = static_cast<InputStorages*>(context)->storages;
  for (const auto& output : function.outputs()) {
    for_each_tensor(output, [&](const torch::Tensor& tensor) {
      const auto* storage = tensor.storage().unsafeGetStorageImpl();
      if (std::find(inputs.begin(), inputs.end(), storage) != inputs.end()) return;
      // Counts the bytes of the storage: an expanded tensor has more elements than its storage.
      current->bytes = std::max(current->bytes, static_cast<int64_t>(tensor.storage().nbytes()));
      current->elements += tensor.numel();
    });
  }
}

double value_of(const OperatorCost& cost, int64_t OperatorCost::*member) {
  return static_cast<double>(std::max<int64_t>(1, cost.*member));
}

}  // namespace

OperatorCostGuard::OperatorCostGuard(OperatorCost& cost)
    : callback_(at::RecordFunctionCallback(on_start, on_end).needsInputs(true).needsOutputs(true)) {
  current = &cost;
}

OperatorCostGuard::~OperatorCostGuard() {
  current = nullptr;
}

int64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

CostModel::CostModel(const SizesByName& base, const OperatorCost& cost)
    : base_(base), base_cost_(cost) {
  for (const auto& [dimension, size] : base) costs_[dimension][size] = cost;
}

void CostModel::add(const SizesByName& sizes, const OperatorCost& cost) {
  const auto [changed, base] = std::mismatch(sizes.begin(), sizes.end(), base_.begin());
  if (changed == sizes.end() || !std::equal(std::next(changed), sizes.end(), std::next(base)))
    return;
  costs_.at(changed->first)[changed->second] = cost;
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

RunLoop::RunLoop(const SizesByName& base, const Limits& limits, Run run)
    : limits_(limits), run_(std::move(run)), costs_(base, run_(base)) {
  limits_.elements = std::max(limits_.elements, 2 * costs_.predict(base).elements);
}

bool RunLoop::run_if_affordable(const SizesByName& sizes) {
  if (!is_affordable(sizes, limits_.elements)) return false;
  const auto cost = run_(sizes);
  costs_.add(sizes, cost);
  limits_.elements -= cost.elements;
  return true;
}

bool RunLoop::run_if_affordable(const SizesByName& sizes, int64_t max_elements) {
  if (!is_affordable(sizes, max_elements)) return false;
  run(sizes);
  return true;
}

bool RunLoop::is_affordable(const SizesByName& sizes, int64_t max_elements) const {
  const auto predicted = costs_.predict(sizes);
  return predicted.bytes <= limits_.bytes && predicted.elements <= max_elements;
}

}  // namespace attend
