#include "export/operator_cost.h"

#include <algorithm>

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

}  // namespace

OperatorCostGuard::OperatorCostGuard(OperatorCost& cost)
    : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
  current = &cost;
}

OperatorCostGuard::~OperatorCostGuard() {
  current = nullptr;
  at::removeCallback(callback_);
}

int64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace attend
