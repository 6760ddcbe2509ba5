#include "export/traced_calls.h"

#include "attend/nn/static_shapes_guard.h"
#include "export/trace.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <unordered_map>

namespace attend {
namespace {

namespace jit = torch::jit;

bool makes_list(const jit::Node& node) {
  return node.kind() == c10::prim::ListConstruct || node.kind() == c10::prim::TupleConstruct;
}

bool makes_contiguous(const jit::Node& node) {
  return node.kind() == c10::aten::contiguous;
}

void add_arguments(jit::Node& node, std::vector<TracedArgument>& arguments) {
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    auto& source = *node.input(i)->node();
    if (makes_list(source)) {
      add_arguments(source, arguments);
    } else {
      arguments.push_back({&node, i});
    }
  }
}

/// Numbers the values of a graph that are not constants, in order.
class Numbering {
 public:
  explicit Numbering(const jit::Graph& graph) {
    add(graph.inputs());
    for (const auto* node : graph.nodes()) {
      if (node->kind() == c10::prim::Constant || makes_list(*node)) continue;
      const auto input = makes_contiguous(*node) ? numbers_.find(node->input(0)) : numbers_.end();
      if (input == numbers_.end()) {
        add(node->outputs());
      } else {
        numbers_.emplace(node->output(), input->second);
      }
    }
  }

  /// Returns true if both values are constants of the same type, or have the same number.
  static bool same(const Numbering& one, const jit::Value* value, const Numbering& other,
                   const jit::Value* other_value) {
    const auto found = one.numbers_.find(value);
    const auto other_found = other.numbers_.find(other_value);
    const bool is_constant = found == one.numbers_.end();
    if (is_constant != (other_found == other.numbers_.end())) return false;
    if (!is_constant) return found->second == other_found->second;
    return jit::toIValue(value)->tagKind() == jit::toIValue(other_value)->tagKind();
  }

 private:
  void add(const at::ArrayRef<const jit::Value*>& values) {
    for (const auto* value : values) numbers_.emplace(value, next_++);
  }

  std::size_t next_ = 0;
  std::unordered_map<const jit::Value*, std::size_t> numbers_;
};

}  // namespace

std::vector<jit::Node*> calls_of(jit::Graph& graph) {
  std::vector<jit::Node*> calls;
  for (auto* node : graph.nodes()) {
    if (is_call(*node) && !makes_contiguous(*node)) calls.push_back(node);
  }
  return calls;
}

std::vector<jit::Value*> traced_outputs(jit::Node& call) {
  std::vector<jit::Value*> outputs;
  for (auto* output : call.outputs()) {
    const auto unpacked =
        std::find_if(output->uses().begin(), output->uses().end(),
                     [](const jit::Use& use) { return use.user->kind() == c10::prim::ListUnpack; });
    if (unpacked == output->uses().end()) {
      outputs.push_back(output);
    } else {
      const auto parts = unpacked->user->outputs();
      outputs.insert(outputs.end(), parts.begin(), parts.end());
    }
  }
  return outputs;
}

std::vector<TracedArgument> traced_arguments(jit::Node& call) {
  std::vector<TracedArgument> arguments;
  add_arguments(call, arguments);
  return arguments;
}

bool are_aligned(jit::Graph& one, jit::Graph& other) {
  auto calls = calls_of(one);
  auto others = calls_of(other);
  calls.push_back(one.return_node());
  others.push_back(other.return_node());
  const Numbering numbers(one);
  const Numbering other_numbers(other);
  return std::equal(
      calls.begin(), calls.end(), others.begin(), others.end(), [&](auto* call, auto* counterpart) {
        const auto arguments = traced_arguments(*call);
        const auto other_arguments = traced_arguments(*counterpart);
        return call->kind() == counterpart->kind() &&
               traced_outputs(*call).size() == traced_outputs(*counterpart).size() &&
               std::equal(arguments.begin(), arguments.end(), other_arguments.begin(),
                          other_arguments.end(), [&](const auto& argument, const auto& another) {
                            return Numbering::same(numbers, argument.value(), other_numbers,
                                                   another.value());
                          });
      });
}

TracedCalls trace_calls(const torch::nn::Module& module, const Forward& function,
                        const std::vector<torch::Tensor>& inputs) {
  // Without this guard, each expert of a `MixtureOfExperts` would run only on the tokens for
  // which it is chosen. The number of these tokens would be reported as a specialized size.
  const StaticShapesGuard static_shapes_guard;
  TracedCalls calls{.scripted = to_script_module(module), .sites = {}, .nodes = {}};
  {
    const RecordCallSites recording(calls.sites);
    add_traced_method(calls.scripted, "forward", function, inputs, {});
  }
  calls.nodes = calls_of(*calls.scripted.get_method("forward").graph());
  return calls;
}

}  // namespace attend
