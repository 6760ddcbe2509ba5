#include "export/frozen_size.h"

#include "export/resize.h"
#include "export/shape_text.h"
#include "export/traced_calls.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace attend {
namespace {

namespace jit = torch::jit;

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

/// The constants that a call takes, those in lists too.
std::vector<c10::IValue> constants_of(const jit::Node& node) {
  std::vector<c10::IValue> constants;
  for (const auto* input : node.inputs()) {
    if (input->node()->kind() == c10::prim::ListConstruct) {
      const auto items = constants_of(*input->node());
      constants.insert(constants.end(), items.begin(), items.end());
    } else if (const auto constant = jit::toIValue(input)) {
      constants.push_back(*constant);
    }
  }
  return constants;
}

/// The first constant that two calls of the same place do not share; as many as both have.
std::optional<std::pair<c10::IValue, c10::IValue>> find_difference(const jit::Node& one,
                                                                   const jit::Node& other) {
  const auto left = constants_of(one);
  const auto right = constants_of(other);
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!same(left[i], right[i])) return std::pair(left[i], right[i]);
  }
  return std::nullopt;
}

/// How many tensors a call gives.
std::size_t results_of(const jit::Node& node) {
  for (const auto* output : node.outputs()) {
    for (const auto& use : output->uses()) {
      if (use.user->kind() == c10::prim::ListUnpack) return use.user->outputs().size();
    }
  }
  return node.outputs().size();
}

/// For which inputs a call is made, and the call.
struct Side {
  std::string inputs;
  const TracedCalls& calls;

  std::string text_of(std::size_t i) const {
    if (i >= calls.nodes.size()) return "none";
    return calls.nodes[i]->kind().toQualString() + calls.sites.text_of(*calls.nodes[i]);
  }
};

/// What two traces differ in, at the first place where they part.
std::optional<std::string> find_difference(const Side& one, const Side& other) {
  const auto& left = one.calls.nodes;
  const auto& right = other.calls.nodes;
  const auto parts_at = [&](std::size_t i) {
    return fmt::format("for {} the module calls {}, for {} {}", one.inputs, one.text_of(i),
                       other.inputs, other.text_of(i));
  };
  std::optional<std::size_t> parted;  // since when the calls come from different places
  const auto count = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (!parted && !one.calls.sites.same(*left[i], other.calls.sites, *right[i])) parted = i;
    if (left[i]->kind() != right[i]->kind()) return parts_at(parted.value_or(i));
    const auto values = find_difference(*left[i], *right[i]);
    const auto results = std::pair(results_of(*left[i]), results_of(*right[i]));
    if (!values && results.first == results.second) continue;
    if (parted) return parts_at(*parted);
    if (!values) {
      return fmt::format("{} gives {} tensors for {}, {} for {}{}", left[i]->kind().toQualString(),
                         results.first, one.inputs, results.second, other.inputs,
                         one.calls.sites.text_of(*left[i]));
    }
    return fmt::format("{} is called with {} for {}, with {} for {}{}",
                       left[i]->kind().toQualString(), text_of(values->first), one.inputs,
                       text_of(values->second), other.inputs, one.calls.sites.text_of(*left[i]));
  }
  if (left.size() != right.size()) return parts_at(parted.value_or(count));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_frozen_size(const torch::nn::Module& module,
                                            const Forward& function,
                                            const std::vector<torch::Tensor>& inputs,
                                            const std::vector<torch::Tensor>& others) {
  std::vector<TracedCalls> traces;  // in a loop, so that what calls both is the same place
  for (const auto* some : {&inputs, &others}) {
    traces.push_back(trace_calls(module, function, *some));
  }
  const auto shape = shape_text(inputs);
  const auto other_shape = shape_text(others);
  const bool sizes_differ = shape != other_shape;
  const auto difference =
      find_difference({sizes_differ ? "inputs of shape " + shape : "the example", traces[0]},
                      {sizes_differ ? other_shape : "other values", traces[1]});
  if (!difference) return std::nullopt;
  return (sizes_differ ? "a size was frozen: " : "a value was frozen: ") + *difference;
}

std::optional<std::string> find_frozen_size(const torch::nn::Module& module,
                                            const Forward& function,
                                            const std::vector<torch::Tensor>& inputs,
                                            const std::vector<DynamicDimension>& dynamic) {
  for (const auto& dimension : distinct(dynamic)) {
    auto sizes = sizes_of(inputs, dynamic);
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
