#include "export/export_guard.h"

#include "export/check_options.h"
#include "export/shape_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace attend {
namespace {

/// Returns true if shapes, dtypes and values are equal; NaN equals NaN. Does not compare tensor
/// versions, since writes through `data()` and data pointers do not increment the version.
bool is_same(const torch::Tensor& one, const torch::Tensor& other) {
  if (one.sizes() != other.sizes() || one.scalar_type() != other.scalar_type()) return false;
  if (c10::isFloat8Type(one.scalar_type())) {
    return one.view(torch::kByte).equal(other.view(torch::kByte));
  }
  if (one.equal(other)) return true;
  if (!one.is_floating_point() && !one.is_complex()) return false;
  return (one == other).logical_or(one.isnan().logical_and(other.isnan())).all().item<bool>();
}

}  // namespace

ExportGuard::ExportGuard(torch::nn::Module& module,
                         const std::vector<torch::Tensor>& example_inputs,
                         const ExportOptions& options, TargetFormat format)
    : eval_(module) {
  check_options(options, example_inputs, format);
  check_state_names(module, format);
  rng_.emplace(rng_state(rng_devices(example_inputs.front().device())));
  for (const auto& item : module.named_parameters()) {
    if (item.value().defined()) parameters_.push_back({item.key(), item.value(), item->clone()});
  }
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) buffers_.push_back({item.key(), item.value(), item->clone()});
  }
}

ExportGuard::~ExportGuard() {
  try {
    for (const auto* all : {&parameters_, &buffers_}) {
      for (const auto& saved : *all) restore(saved);
    }
  } catch (const c10::Error&) {  // ignored, since destructors must not throw
  }
}

void ExportGuard::add_constant(const torch::Tensor& tensor) {
  const auto is_it = [&](const SavedTensor& saved) { return saved.tensor.is_same(tensor); };
  if (std::any_of(buffers_.begin(), buffers_.end(), is_it)) return;
  constants_.push_back({{}, tensor, tensor.clone()});
}

void ExportGuard::restore() {
  for (const auto& saved : buffers_) restore(saved);
  std::string mutated;
  for (const auto& saved : parameters_) {
    if (restore(saved)) mutated = saved.name;
  }
  if (!mutated.empty()) {
    throw std::runtime_error(
        fmt::format("forward mutates the parameter '{}', but an exported program cannot mutate "
                    "parameters; register the tensor as a buffer or, for ONNX, pass it as an input "
                    "and return its new value as an output",
                    mutated));
  }
  for (const auto& saved : constants_) {
    if (!restore(saved)) continue;
    throw std::runtime_error(
        fmt::format("forward mutates a tensor of shape {} that is neither an input nor a buffer; "
                    "register the tensor as a buffer or, for ONNX, pass it as an input and return "
                    "its new value as an output",
                    shape_text(saved.tensor)));
  }
}

/// Writes to the tensor only if it was mutated: some tensors, such as expanded tensors, are not
/// writable.
bool ExportGuard::restore(const SavedTensor& saved) {
  if (is_same(saved.tensor, saved.copy)) return false;
  if (saved.tensor.sizes() != saved.copy.sizes()) saved.tensor.resize_(saved.copy.sizes());
  saved.tensor.copy_(saved.copy);
  return true;
}

}  // namespace attend
