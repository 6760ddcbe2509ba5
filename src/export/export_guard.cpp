#include "export/export_guard.h"

#include "export/check_options.h"
#include "export/shape_text.h"
#include "nn/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <clocale>
#include <stdexcept>
#include <string_view>

namespace attend {

ClassicLocaleGuard::ClassicLocaleGuard()
    : c_(std::setlocale(LC_ALL, nullptr)),
      is_needed_(cpp_ != std::locale::classic() ||
                 std::setlocale(LC_NUMERIC, nullptr) != std::string_view("C")) {
  if (!is_needed_) return;
  std::locale::global(std::locale::classic());  // also sets the locale of C
}

ClassicLocaleGuard::~ClassicLocaleGuard() {
  if (!is_needed_) return;
  std::locale::global(cpp_);
  std::setlocale(LC_ALL, c_.c_str());
}

ExportGuard::ExportGuard(torch::nn::Module& module,
                         const std::vector<torch::Tensor>& example_inputs,
                         const ExportOptions& options, TargetFormat format)
    : eval_(module) {
  check_options(options, example_inputs, format);
  check_state_names(module, format);
  check_adapters_are_used(module);
  rng_.emplace(rng_state(rng_devices(example_inputs.front().device())));
  for (const auto& item : module.named_parameters()) {
    if (item.value().defined()) parameter_names_.push_back(item.key());
  }
  parameters_.emplace(module.parameters());
  for (const auto& buffer : module.buffers()) {
    if (buffer.defined()) buffers_.push_back({buffer, buffer.clone()});
  }
}

ExportGuard::~ExportGuard() {
  try {
    if (parameters_) restore_all(parameters_->kept());
    restore_all(buffers_);
  } catch (const c10::Error&) {  // ignored, since destructors must not throw
  }
}

void ExportGuard::add_constant(const torch::Tensor& tensor) {
  const auto is_it = [&](const KeptTensor& kept) { return kept.tensor.is_same(tensor); };
  if (std::any_of(buffers_.begin(), buffers_.end(), is_it)) return;
  constants_.push_back({tensor, tensor.clone()});
}

void ExportGuard::share_parameters(const std::map<std::string, torch::Tensor>& loaded) const {
  for (std::size_t i = 0; i < parameter_names_.size(); ++i) {
    const auto found = loaded.find(parameter_names_[i]);
    if (found == loaded.end()) continue;
    const auto& parameter = parameters_->kept()[i].tensor;
    const bool has_same_layout = parameter.layout() == torch::kStrided &&
                                 parameter.strides() == found->second.strides() &&
                                 parameter.device() == found->second.device();
    if (has_same_layout && has_same_values(parameter, found->second)) {
      found->second.set_data(parameter.detach());
    }
  }
}

void ExportGuard::restore() {
  restore_all(buffers_);
  if (const auto mutated = restore_all(parameters_->kept())) {
    throw std::runtime_error(
        fmt::format("forward mutates the parameter '{}', but an exported program cannot mutate "
                    "parameters; register the tensor as a buffer or, for ONNX, pass it as an input "
                    "and return its new value as an output",
                    parameter_names_[*mutated]));
  }
  if (const auto mutated = restore_all(constants_)) {
    throw std::runtime_error(
        fmt::format("forward mutates a tensor of shape {} that is neither an input nor a buffer; "
                    "register the tensor as a buffer or, for ONNX, pass it as an input and return "
                    "its new value as an output",
                    shape_text(constants_[*mutated].tensor)));
  }
}

}  // namespace attend
