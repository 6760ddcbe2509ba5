#include "export/copy_before_write.h"

#include <ATen/TracerMode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>

namespace attend {
namespace {

thread_local std::vector<std::vector<KeptTensor>*> watched;  // of all guards

bool shares_memory(const torch::Tensor& one, const torch::Tensor& other) {
  return one.defined() && one.has_storage() && other.has_storage() && one.is_alias_of(other);
}

void copy_values_of(const torch::Tensor& written) {
  KeptTensor last;  // copied; several guards share the copy of a tensor
  for (auto* kept : watched) {
    for (auto& [tensor, values] : *kept) {
      // If the values share no memory with the tensor, they were copied before.
      if (!shares_memory(written, values) || !shares_memory(tensor, values)) continue;
      if (!tensor.is_same(last.tensor)) {
        const at::tracer::impl::NoTracerDispatchMode not_traced;
        const at::NoGradGuard no_grad;
        last = {tensor, values.clone()};
      }
      values = last.values;
    }
  }
}

std::unique_ptr<at::ObserverContext> copy_written_arguments(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  if (!name) return nullptr;
  // RecordFunction::operator_schema copies the schema, which takes as long as a small operator.
  const auto found = c10::Dispatcher::singleton().findSchema(*name);
  if (!found) return nullptr;
  const auto& arguments = found->schema().arguments();
  const auto inputs = function.inputs();
  const auto count = std::min(inputs.size(), arguments.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto* alias = arguments[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    if (inputs[i].isTensor()) copy_values_of(inputs[i].toTensor());
    if (!inputs[i].isTensorList()) continue;
    for (const torch::Tensor& tensor : inputs[i].toTensorList()) copy_values_of(tensor);
  }
  return nullptr;
}

}  // namespace

bool has_same_values(const torch::Tensor& one, const torch::Tensor& other) {
  if (one.sizes() != other.sizes() || one.scalar_type() != other.scalar_type()) return false;
  if (one.has_storage() && one.is_set_to(other)) return true;
  if (c10::isFloat8Type(one.scalar_type())) {
    return one.view(torch::kByte).equal(other.view(torch::kByte));
  }
  if (one.equal(other)) return true;
  if (!one.is_floating_point() && !one.is_complex()) return false;
  return (one == other).logical_or(one.isnan().logical_and(other.isnan())).all().item<bool>();
}

std::optional<std::size_t> restore_all(const std::vector<KeptTensor>& all) {
  std::optional<std::size_t> mutated;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [tensor, values] = all[i];
    // Some tensors, such as expanded tensors, are not writable.
    if (has_same_values(tensor, values)) continue;
    if (tensor.sizes() != values.sizes()) tensor.resize_(values.sizes());
    tensor.data().copy_(values);
    mutated = i;
  }
  return mutated;
}

CopyBeforeWrite::CopyBeforeWrite(const std::vector<torch::Tensor>& tensors)
    : callback_(at::RecordFunctionCallback(copy_written_arguments).needsInputs(true)) {
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) continue;
    // Sparse tensors have no storage by which a write could be noticed.
    kept_.push_back({tensor, tensor.has_storage() ? tensor.detach() : tensor.clone()});
  }
  watched.push_back(&kept_);
}

CopyBeforeWrite::~CopyBeforeWrite() {
  watched.pop_back();
}

}  // namespace attend
