#include "export/operator_cost.h"

#include <torch/types.h>

#include <algorithm>

namespace attend {
namespace {

thread_local OperatorCost* current = nullptr;

void add(const c10::IValue& output) {
  if (output.isTensorList()) {
    for (const torch::Tensor& tensor : output.toTensorList()) add(tensor);
    return;
  }
  if (!output.isTensor() || !output.toTensor().defined() || !output.toTensor().has_storage()) {
    return;
  }
  const auto& tensor = output.toTensor();
  // The bytes are those of the storage, since an expanded tensor has more elements than memory.
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  current->largest_bytes = std::max(current->largest_bytes, bytes);
  current->elements += tensor.numel();
}

}  // namespace

OperatorCostScope::OperatorCostScope(OperatorCost& cost)
    : callback_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(
              [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
                return nullptr;
              },
              [](const at::RecordFunction& function, at::ObserverContext* /*context*/) {
                for (const auto& output : function.outputs()) add(output);
              })
              .needsOutputs(true)
              .scopes({at::RecordScope::FUNCTION}))) {
  current = &cost;
}

OperatorCostScope::~OperatorCostScope() {
  current = nullptr;
  at::removeCallback(callback_);
}

}  // namespace attend
