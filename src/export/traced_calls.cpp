#include "export/traced_calls.h"

#include "attend/nn/static_shapes_guard.h"
#include "export/trace.h"

namespace attend {

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
  for (const auto* node : calls.scripted.get_method("forward").graph()->nodes()) {
    if (is_call(*node)) calls.nodes.push_back(node);
  }
  return calls;
}

}  // namespace attend
