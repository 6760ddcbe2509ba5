#include "export/frozen_size.h"

#include "attend/nn/static_shapes.h"
#include "export/call_sites.h"
#include "export/resize.h"
#include "export/shape_text.h"
#include "export/trace.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace attend {
namespace {

namespace jit = torch::jit;

struct Traced {
  jit::Module scripted;
  CallSites sites;
  std::vector<const jit::Node*> nodes;
  std::string shape;
};

Traced trace(const torch::nn::Module& module, const Forward& function,
             const std::vector<torch::Tensor>& inputs) {
  // Otherwise the number of tokens that an expert gets would look frozen.
  const StaticShapes static_shapes;
  Traced traced{mirror(module), {}, {}, shape_text(inputs[0])};
  {
    const RecordCallSites recording(traced.sites);
    add_traced_method(traced.scripted, "forward", function, inputs, {});
  }
  const auto nodes = traced.scripted.get_method("forward").graph()->nodes();
  traced.nodes.assign(nodes.begin(), nodes.end());
  return traced;
}

/// Numbers as they are, tensors by their shapes.
std::string text_of(const c10::IValue& value) {
  if (value.isTensor()) {
    return "a tensor of shape " + shape_text(value.toTensor());
  }
  std::ostringstream text;
  text << value;
  return text.str();
}

bool same(const c10::IValue& one, const c10::IValue& other) {
  if (one.tagKind() != other.tagKind()) return false;
  if (one.isTensor()) {
    return one.toTensor().sizes() == other.toTensor().sizes() &&
           one.toTensor().allclose(other.toTensor(), /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true);
  }
  return one == other;
}

/// The call that takes a constant, maybe as an item of a list.
const jit::Node* caller_of(const jit::Node& constant) {
  const auto* user = &constant;
  while (!user->kind().is_aten() && !user->outputs().empty() && user->output()->hasUses()) {
    user = user->output()->uses().front().user;
  }
  return user;
}

}  // namespace

std::optional<std::string> find_frozen_size(const torch::nn::Module& module,
                                            const Forward& function,
                                            const std::vector<torch::Tensor>& inputs,
                                            const std::vector<torch::Tensor>& others) {
  const auto one = trace(module, function, inputs);
  const auto other = trace(module, function, others);
  const bool sizes_differ = one.shape != other.shape;
  const auto what = sizes_differ ? "a size was frozen: " : "a value was frozen: ";
  const auto for_one = sizes_differ ? "inputs of shape " + one.shape : "the example";
  const auto for_other = sizes_differ ? other.shape : "other values";
  const auto count = std::min(one.nodes.size(), other.nodes.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& left = *one.nodes[i];
    const auto& right = *other.nodes[i];
    if (left.kind() != right.kind()) {
      return fmt::format("{}for {} the module calls {}{}, for {} {}", what, for_one,
                         left.kind().toQualString(), one.sites.text_of(left), for_other,
                         right.kind().toQualString());
    }
    if (left.kind() != c10::prim::Constant) continue;
    const auto was = jit::toIValue(left.output());
    const auto is = jit::toIValue(right.output());
    if (!was || !is || same(*was, *is)) continue;
    const auto* caller = caller_of(left);
    return fmt::format("{}{} is called with {} for {}, with {} for {}{}", what,
                       caller->kind().toQualString(), text_of(*was), for_one, text_of(*is),
                       for_other, one.sites.text_of(*caller));
  }
  return std::nullopt;
}

std::optional<std::string> find_frozen_size(const torch::nn::Module& module,
                                            const Forward& function,
                                            const std::vector<torch::Tensor>& inputs,
                                            const std::vector<DynamicDimension>& dynamic) {
  for (const auto& dimension : dynamic) {
    std::map<std::string, int64_t> sizes;
    for (const auto& any : dynamic) {
      sizes[any.name] = inputs.at(any.input).size(any.dimension);
    }
    const auto size = sizes.at(dimension.name);
    // Neighbours, and twice as much: half of a size is the same for some neighbours.
    for (const auto other : {size + 1, 2 * size, dimension.least}) {
      if (other > dimension.greatest) continue;
      sizes[dimension.name] = other;
      auto frozen = find_frozen_size(module, function, inputs, resize(inputs, dynamic, sizes));
      if (frozen) return frozen;
    }
  }
  return std::nullopt;
}

std::string reason_of(const std::exception& error) {
  const std::string text = error.what();
  if (!text.starts_with("The following operation failed in the TorchScript interpreter")) {
    return text.substr(0, text.find('\n'));
  }
  const auto end = text.find_last_not_of('\n');
  return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
}

std::runtime_error explained(const std::exception& error, const std::string& frozen) {
  return std::runtime_error(fmt::format("{}; {}", reason_of(error), frozen));
}

void refuse_sizes_frozen_in_recurrent_layers(const jit::Module& scripted, const std::string& method,
                                             const torch::nn::Module& module,
                                             const Forward& function,
                                             const std::vector<torch::Tensor>& inputs,
                                             const std::vector<DynamicDimension>& dynamic) {
  const auto is_recurrent = [](const jit::Node* node) {
    return node->kind() == c10::aten::lstm || node->kind() == c10::aten::gru ||
           node->kind() == c10::aten::rnn_tanh || node->kind() == c10::aten::rnn_relu;
  };
  const auto nodes = scripted.get_method(method).graph()->nodes();
  if (std::none_of(nodes.begin(), nodes.end(), is_recurrent)) return;
  const auto frozen = find_frozen_size(module, function, inputs, dynamic);
  if (frozen) throw std::runtime_error(*frozen);
}

}  // namespace attend
