#include "export/export_scope.h"

#include "export/check_options.h"

#include <fmt/format.h>

#include <stdexcept>

namespace attend {
namespace {

/// Tensors of inference mode count no changes: they cannot be changed outside of it.
uint32_t version_of(const torch::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version());
}

}  // namespace

ExportScope::ExportScope(torch::nn::Module& module,
                         const std::vector<torch::Tensor>& example_inputs,
                         const ExportOptions& options)
    : eval_(module) {
  check_options(options, example_inputs);
  check_state_names(module);
  for (const auto& item : module.named_parameters()) {
    const auto& tensor = item.value();
    if (tensor.defined()) parameters_.push_back({item.key(), tensor, version_of(tensor), {}});
  }
  for (const auto& item : module.named_buffers()) {
    const auto& tensor = item.value();
    if (!tensor.defined()) continue;
    buffers_.push_back({item.key(), tensor, version_of(tensor), tensor.clone()});
  }
}

void ExportScope::restore() {
  restore_buffers();
  for (const auto& [name, tensor, version, copy] : parameters_) {
    if (version_of(tensor) == version) continue;
    throw std::runtime_error(fmt::format(
        "forward changes the parameter '{}', which no file can hold: buffers may change", name));
  }
}

/// Those that changed alone: of others, as expanded ones, some cannot be written.
void ExportScope::restore_buffers() {
  for (auto& [name, tensor, version, copy] : buffers_) {
    if (version_of(tensor) == version) continue;
    tensor.copy_(copy);
    version = version_of(tensor);
  }
}

}  // namespace attend
