#include "export/export_scope.h"

#include "export/check_options.h"
#include "export/shape_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace attend {
namespace {

/// Whether they hold the same, NaN too. Not by the count of changes that tensors keep: `data()` and
/// pointers go past that.
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
                         const ExportOptions& options)
    : eval_(module) {
  check_options(options, example_inputs);
  check_state_names(module);
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
      for (const auto& held : *all) restore(held);
    }
  } catch (const c10::Error&) {  // while the reason is on its way already
  }
}

void ExportGuard::add_constant(const torch::Tensor& tensor) {
  const auto is_it = [&](const Held& held) { return held.tensor.is_same(tensor); };
  if (std::any_of(buffers_.begin(), buffers_.end(), is_it)) return;
  constants_.push_back({{}, tensor, tensor.clone()});
}

void ExportGuard::restore() {
  for (const auto& held : buffers_) restore(held);
  std::string changed;
  for (const auto& held : parameters_) {
    if (restore(held)) changed = held.name;
  }
  if (!changed.empty()) {
    throw std::runtime_error(fmt::format(
        "forward changes the parameter '{}', which no file can hold: buffers may change", changed));
  }
  for (const auto& held : constants_) {
    if (!restore(held)) continue;
    throw std::runtime_error(fmt::format(
        "forward changes a tensor of shape {} that is no buffer of the module, which no file can "
        "hold: register it as a buffer",
        shape_text(held.tensor)));
  }
}

/// Those that changed alone: of others, as expanded ones, some cannot be written.
bool ExportGuard::restore(const Held& held) {
  if (is_same(held.tensor, held.copy)) return false;
  if (held.tensor.sizes() != held.copy.sizes()) held.tensor.resize_(held.copy.sizes());
  held.tensor.copy_(held.copy);
  return true;
}

}  // namespace attend
