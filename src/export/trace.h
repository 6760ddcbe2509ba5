#pragma once

#include "attend/export/export_options.h"

#include <ATen/record_function.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace attend {

/// Returns a ScriptModule with the submodules, parameters and buffers of `module`, without methods.
torch::jit::Module to_script_module(const torch::nn::Module& module);

/// Returns true if a node of a trace is an operator call, not a constant, list or attribute.
bool is_call(const torch::jit::Node& node);

/// Start of a callback that observes the operator calls in a trace.
std::unique_ptr<at::ObserverContext> start_call(const at::RecordFunction& function);

/// Returns the nodes that an operator call added to the trace on this thread, the newest first.
/// `context`: result of `start_call`.
std::vector<torch::jit::Node*> nodes_of_call(at::ObserverContext* context);

/// Returns the constants of a graph, without the constants of nested blocks.
std::vector<c10::IValue> graph_constants(const torch::jit::Graph& graph);

/// Returns the absolute values of the integer constants in a traced graph. Omits absolute values of
/// kMaxScheduledSize or more.
std::set<int64_t> integer_constants(const torch::jit::Graph& graph);

/// Traces `function` with `inputs` and adds the graph to `scripted` as the method `name`. If
/// `input_names` is shorter than `inputs`, the remaining inputs are named by their index, such as
/// input1. Returns the structure of the outputs; the graph returns the tensors in them.
TreeSpec add_traced_method(torch::jit::Module& scripted, const std::string& name,
                           const Forward& function, const std::vector<torch::Tensor>& inputs,
                           const std::vector<std::string>& input_names);

}  // namespace attend
