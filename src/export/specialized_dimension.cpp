#include "export/specialized_dimension.h"

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

std::string text_of(const c10::IValue& value) {
  if (value.isTensor()) {
    return "a tensor of shape " + shape_text(value.toTensor());
  }
  if (value.isDouble()) return fmt::format("{}", value.toDouble());  // `<<` writes "5."
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

/// Returns the constant arguments of a call, including elements of lists.
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

/// Returns the first pair of constant arguments in which two calls differ.
std::optional<std::pair<c10::IValue, c10::IValue>> find_difference(const jit::Node& one,
                                                                   const jit::Node& other) {
  const auto left = constants_of(one);
  const auto right = constants_of(other);
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!same(left[i], right[i])) return std::pair(left[i], right[i]);
  }
  return std::nullopt;
}

/// Returns the number of tensors that a call returns. The elements of a returned list are counted.
std::size_t num_outputs(const jit::Node& node) {
  for (const auto* output : node.outputs()) {
    for (const auto& use : output->uses()) {
      if (use.user->kind() == c10::prim::ListUnpack) return use.user->outputs().size();
    }
  }
  return node.outputs().size();
}

/// A trace, and a description of its inputs for messages.
struct Trace {
  std::string inputs;
  const TracedCalls& calls;

  std::string text_of(std::size_t i) const {
    if (i >= calls.nodes.size()) return "no further operator";
    return calls.nodes[i]->kind().toQualString() + calls.sites.text_of(*calls.nodes[i]);
  }
};

/// Describes the first difference between two traces. Returns nullopt if there is none.
std::optional<std::string> find_difference(const Trace& one, const Trace& other) {
  const auto& left = one.calls.nodes;
  const auto& right = other.calls.nodes;
  const auto diverges_at = [&](std::size_t i) {
    return fmt::format("with {}, forward calls {}; with {}, it calls {}", one.inputs,
                       one.text_of(i), other.inputs, other.text_of(i));
  };
  std::optional<std::size_t> diverged;  // index of the first call with different call sites
  const auto count = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (!diverged && !one.calls.sites.same(*left[i], other.calls.sites, *right[i])) diverged = i;
    if (left[i]->kind() != right[i]->kind()) return diverges_at(diverged.value_or(i));
    const auto values = find_difference(*left[i], *right[i]);
    const auto outputs = std::pair(num_outputs(*left[i]), num_outputs(*right[i]));
    if (!values && outputs.first == outputs.second) continue;
    if (diverged) return diverges_at(*diverged);
    if (!values) {
      return fmt::format("{} returns {} tensors for {}, but {} for {}{}",
                         left[i]->kind().toQualString(), outputs.first, one.inputs, outputs.second,
                         other.inputs, one.calls.sites.text_of(*left[i]));
    }
    return fmt::format("{} is called with the argument {} for {}, but with {} for {}{}",
                       left[i]->kind().toQualString(), text_of(values->first), one.inputs,
                       text_of(values->second), other.inputs, one.calls.sites.text_of(*left[i]));
  }
  if (left.size() != right.size()) return diverges_at(diverged.value_or(count));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_specialization(const torch::nn::Module& module,
                                               const Forward& function,
                                               const std::vector<torch::Tensor>& inputs,
                                               const std::vector<torch::Tensor>& others) {
  // The loop makes both traces with the same call of `trace_calls`. Two calls in the source code
  // would have different return addresses in the call stacks.
  std::vector<TracedCalls> traces;
  for (const auto* some : {&inputs, &others}) {
    traces.push_back(trace_calls(module, function, *some));
  }
  const auto shape = shape_text(inputs);
  const auto other_shape = shape_text(others);
  const bool sizes_differ = shape != other_shape;
  const auto difference =
      find_difference({sizes_differ ? "inputs of shape " + shape : "the example inputs", traces[0]},
                      {sizes_differ ? other_shape : "other values", traces[1]});
  if (!difference) return std::nullopt;
  if (sizes_differ) {
    return fmt::format(
        "a size was specialized: {}; in forward, use operators such as torch::unflatten and "
        "torch::flatten instead of sizes read into C++ numbers",
        *difference);
  }
  return fmt::format(
      "a value was specialized: {}; in forward, use operators such as torch::where instead of "
      "values read into C++ numbers",
      *difference);
}

std::optional<std::string> find_specialization(const torch::nn::Module& module,
                                               const Forward& function,
                                               const std::vector<torch::Tensor>& inputs,
                                               const std::vector<DynamicDimension>& dynamic) {
  for (const auto& dimension : distinct(dynamic)) {
    auto sizes = sizes_of(inputs, dynamic);
    const auto size = sizes.at(dimension.name);
    // size + 1 alone is not enough: (size + 1) / 2 may be equal to size / 2.
    for (const auto other : {size + 1, 2 * size, dimension.min}) {
      if (other > dimension.max) continue;
      sizes[dimension.name] = other;
      const auto others = resize(inputs, dynamic, sizes);
      try {
        auto specialization = find_specialization(module, function, inputs, others);
        if (specialization) return specialization;
      } catch (const std::exception& error) {
        throw module_rejects(others, error);
      }
    }
  }
  return std::nullopt;
}

std::string short_message(const std::exception& error) {
  const std::string text = error.what();
  if (!text.starts_with("The following operation failed in the TorchScript interpreter")) {
    return text.substr(0, text.find('\n'));
  }
  const auto end = text.find_last_not_of('\n');
  return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
}

std::runtime_error module_rejects(const std::vector<torch::Tensor>& inputs,
                                  const std::exception& error) {
  return std::runtime_error(
      fmt::format("the module rejects {}, although all sizes are within min and max of the dynamic "
                  "dimensions: {}",
                  shapes_text(inputs), short_message(error)));
}

std::runtime_error with_specialization(const std::exception& error,
                                       const std::string& specialization) {
  return std::runtime_error(fmt::format("{}; {}", short_message(error), specialization));
}

void check_recurrent_layers(const jit::Module& scripted, const std::string& method,
                            const torch::nn::Module& module, const Forward& function,
                            const std::vector<torch::Tensor>& inputs,
                            const std::vector<DynamicDimension>& dynamic) {
  const auto is_recurrent = [](const jit::Node* node) {
    return node->kind() == c10::aten::lstm || node->kind() == c10::aten::gru ||
           node->kind() == c10::aten::rnn_tanh || node->kind() == c10::aten::rnn_relu;
  };
  const auto nodes = scripted.get_method(method).graph()->nodes();
  if (std::none_of(nodes.begin(), nodes.end(), is_recurrent)) return;
  const auto specialization = find_specialization(module, function, inputs, dynamic);
  if (specialization) throw std::runtime_error(*specialization);
}

}  // namespace attend
