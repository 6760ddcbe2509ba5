#include "support/kernels.h"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <memory>
#include <string_view>

namespace attend {
namespace {

thread_local std::vector<FusedCall>* calls = nullptr;
thread_local std::set<std::string>* operators = nullptr;

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
  if (std::string_view(function.name()) != "aten::_scaled_dot_product_flash_attention_for_cpu") {
    return nullptr;
  }
  const auto inputs = function.inputs();  // query, key, value, dropout, is_causal, mask, scale
  const auto& mask = inputs[5];
  calls->push_back({inputs[4].toBool(), mask.isTensor() && mask.toTensor().defined()});
  return nullptr;
}

}  // namespace

std::vector<FusedCall> fused_calls(const std::function<void()>& run) {
  std::vector<FusedCall> found;
  calls = &found;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  run();
  at::removeCallback(handle);
  calls = nullptr;
  return found;
}

std::set<std::string> operators_of(const std::function<void()>& run) {
  std::set<std::string> found;
  operators = &found;
  const auto note_name =
      [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    operators->insert(function.name());
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note_name).scopes({at::RecordScope::FUNCTION}));
  run();
  at::removeCallback(handle);
  operators = nullptr;
  return found;
}

}  // namespace attend
