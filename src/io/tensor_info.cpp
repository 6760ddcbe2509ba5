#include "attend/io/tensor_info.h"

#include "io/dtypes.h"

namespace attend {
namespace {

/// Returns the Python name of a safetensors dtype, or `name` itself if LibTorch has no such dtype.
std::string dtype_in_python(const std::string& name) {
  const auto* dtype = find_dtype(&Dtype::safetensors, name);
  return dtype == nullptr ? name : std::string(c10::getDtypeNames(dtype->type).first);
}

TensorRole role_of(const torch::Tensor& tensor, bool is_buffer) {
  if (is_buffer) return TensorRole::buffer;
  return tensor.requires_grad() ? TensorRole::parameter : TensorRole::frozen;
}

}  // namespace

void TensorList::add(const std::string& name, const torch::Tensor& tensor, bool is_buffer) {
  TensorInfo info{.name = name,
                  .shape = tensor.sizes().vec(),
                  .dtype = std::string(c10::getDtypeNames(tensor.scalar_type()).first),
                  .elements = tensor.numel(),
                  .bytes = static_cast<int64_t>(tensor.nbytes()),
                  .role = role_of(tensor, is_buffer)};
  if (tensor.numel() > 0) {  // the data pointer of empty tensors is null
    const auto [first, is_new] = seen_.try_emplace({tensor.const_data_ptr(), info.shape}, name);
    if (!is_new) info.alias_of = first->second;
  }
  tensors_.push_back(std::move(info));
}

std::vector<TensorInfo> tensors_of(ConstModuleRef module) {
  TensorList list;
  for (const auto& item : module->named_parameters()) {
    list.add(item.key(), item.value(), /*is_buffer=*/false);
  }
  for (const auto& item : module->named_buffers()) {
    list.add(item.key(), item.value(), /*is_buffer=*/true);
  }
  return list.tensors();
}

std::vector<TensorInfo> tensors_of(const SafetensorsHeader& header) {
  std::vector<TensorInfo> tensors;
  for (const auto& entry : header.entries) {
    const auto bytes = static_cast<int64_t>(entry.end - entry.begin);
    const auto bits = static_cast<int64_t>(safetensors_element_bits(entry.dtype));
    tensors.push_back({.name = entry.name,
                       .shape = entry.shape,
                       .dtype = dtype_in_python(entry.dtype),
                       .elements = 8 * bytes / bits,
                       .bytes = bytes});
  }
  return tensors;
}

TensorTotals totals_of(const std::vector<TensorInfo>& tensors) {
  TensorTotals totals;
  for (const auto& tensor : tensors) {
    ++totals.tensors;
    if (!tensor.alias_of.empty()) continue;
    totals.elements += tensor.elements;
    totals.bytes += tensor.bytes;
    if (tensor.role == TensorRole::parameter) totals.trainable += tensor.elements;
    if (tensor.role == TensorRole::frozen) totals.frozen += tensor.elements;
    if (tensor.role == TensorRole::buffer) totals.buffers += tensor.elements;
  }
  return totals;
}

}  // namespace attend
