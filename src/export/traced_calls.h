#pragma once

#include "attend/export/export_options.h"
#include "export/call_sites.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <vector>

namespace attend {

/// The operators that a function calls, one after the other, and where it calls them.
struct TracedCalls {
  torch::jit::Module scripted;  ///< holds the nodes
  CallSites sites;
  std::vector<const torch::jit::Node*> nodes;
};

/// By tracing it, which takes longer than without noting the places.
TracedCalls trace_calls(const torch::nn::Module& module, const Forward& function,
                        const std::vector<torch::Tensor>& inputs);

}  // namespace attend
