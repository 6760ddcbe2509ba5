#include "export/program/traced_program.h"

#include "attend/nn/static_shapes_guard.h"
#include "export/frozen_size.h"
#include "export/program/describe.h"
#include "export/program/from_trace.h"
#include "export/trace.h"

namespace attend::program {

std::vector<torch::Tensor> TracedProgram::constants() const {
  std::vector<torch::Tensor> all;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::constant) all.push_back(weights.at(input.target));
  }
  return all;
}

TracedProgram trace_program(const torch::nn::Module& module, const Forward& function,
                            const std::vector<torch::Tensor>& example_inputs,
                            const ExportOptions& options, UnfittedSizes unfitted_sizes) {
  const StaticShapesGuard static_shapes_guard;
  auto scripted = mirror(module);
  add_traced_method(scripted, "forward", function, example_inputs, options.input_names);
  refuse_sizes_frozen_in_recurrent_layers(scripted, "forward", module, function, example_inputs,
                                          options.dynamic);
  auto traced = program_of(scripted);
  try {
    describe_tensors(traced, example_inputs, options.dynamic, unfitted_sizes);
  } catch (const std::exception& error) {
    const auto frozen = find_frozen_size(module, function, example_inputs, options.dynamic);
    if (!frozen) throw;
    throw explained(error, *frozen);
  }
  return traced;
}

}  // namespace attend::program
