#pragma once

#include "attend/export/export_options.h"
#include "export/call_sites.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <tuple>
#include <vector>

namespace attend {

/// Returns the operator calls of a trace in order, except those of aten::contiguous, which LibTorch
/// calls only for tensors that are not contiguous yet. It depends on sizes whether they are: a
/// transposed tensor is contiguous if one of its dimensions has size 1.
std::vector<torch::jit::Node*> calls_of(torch::jit::Graph& graph);

/// Returns the tensors that a call returns. The elements of a returned list are returned one by
/// one.
std::vector<torch::jit::Value*> traced_outputs(torch::jit::Node& call);

/// An argument of an operator call in a trace, or an element of a list that is an argument.
struct TracedArgument {
  torch::jit::Node* user;  // the call, or the node that makes the list
  std::size_t index;       // index in the inputs of `user`
  torch::jit::Value* value() const { return user->input(index); }
};

/// Returns the arguments of a call. The elements of a list are returned one by one.
std::vector<TracedArgument> traced_arguments(torch::jit::Node& call);

/// Position of an argument in a trace. Corresponding arguments in two traces of a function have
/// equal positions, unless the traces call different operators.
struct ArgumentPosition {
  std::size_t call = 0;      // index in `calls_of`
  std::size_t argument = 0;  // index in `traced_arguments`
  friend bool operator<(const ArgumentPosition& a, const ArgumentPosition& b) {
    return std::tie(a.call, a.argument) < std::tie(b.call, b.argument);
  }
};

/// Returns true if two traces call the same operators, and pass the results of the same operators.
/// Constant arguments may have different values.
bool are_aligned(torch::jit::Graph& one, torch::jit::Graph& other);

/// Operator calls of a traced function in order, with their call sites.
struct TracedCalls {
  torch::jit::Module scripted;  ///< owns the nodes
  CallSites sites;
  std::vector<torch::jit::Node*> nodes;
};

/// Traces `function` and records call sites. This is slower than tracing without call sites.
TracedCalls trace_calls(const torch::nn::Module& module, const Forward& function,
                        const std::vector<torch::Tensor>& inputs);

}  // namespace attend
