#include "support/trace.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <memory>
#include <string>

namespace attend {

TensorFunction trace(const TensorFunction& function, const Tensors& example) {
  const auto run = [&](const torch::jit::Stack& inputs) -> torch::jit::Stack {
    Tensors tensors;
    for (const auto& input : inputs) tensors.push_back(input.toTensor());
    return {function(tensors)};
  };
  const auto no_name = [](const torch::autograd::Variable&) { return std::string(); };
  const auto state =
      torch::jit::tracer::trace(torch::jit::Stack(example.begin(), example.end()), run, no_name)
          .first;
  const auto traced = std::make_shared<torch::jit::GraphFunction>("forward", state->graph,
                                                                  /*function_creator=*/nullptr);
  return [traced](const Tensors& inputs) {
    return (*traced)(std::vector<c10::IValue>(inputs.begin(), inputs.end())).toTensor();
  };
}

}  // namespace attend
