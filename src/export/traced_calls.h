#pragma once

#include "attend/export/export_options.h"
#include "export/call_sites.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <vector>

namespace attend {

/// Operator calls of a traced function in order, with their call sites.
struct TracedCalls {
  torch::jit::Module scripted;  ///< owns the nodes
  CallSites sites;
  std::vector<const torch::jit::Node*> nodes;
};

/// Traces `function` and records call sites. This is slower than tracing without call sites.
TracedCalls trace_calls(const torch::nn::Module& module, const Forward& function,
                        const std::vector<torch::Tensor>& inputs);

}  // namespace attend
