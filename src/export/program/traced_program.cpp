#include "export/program/traced_program.h"

#include "attend/nn/static_shapes_guard.h"
#include "export/program/from_trace.h"
#include "export/program/infer_tensor_meta.h"
#include "export/program/observations.h"
#include "export/resize.h"
#include "export/specialized_dimension.h"
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
                            const ExportOptions& options, TargetFormat format) {
  const StaticShapesGuard static_shapes_guard;
  auto scripted = to_script_module(module);
  CallSites sites;
  const auto trace = trace_method(scripted, module,
                                  {"forward", function, example_inputs, options.input_names,
                                   options.dynamic, options.arguments},
                                  format == TargetFormat::pt2 ? &sites : nullptr);
  auto traced = program_from_trace(scripted, sites.stack_traces());
  traced.trace = trace;
  try {
    infer_tensor_meta(traced, format);
  } catch (const WrongForInputs& error) {
    const auto inputs = copies_of(error.inputs);
    try {
      function(inputs);
    } catch (const std::exception& why) {
      throw module_rejects(error.inputs, why);
    }
    const auto specialization = find_specialization(module, trace, error.inputs);
    if (!specialization) throw;
    throw with_specialization(error, *specialization);
  } catch (const std::exception& error) {
    const auto specialization = find_specialization(module, trace);
    if (!specialization) throw;
    throw with_specialization(error, *specialization);
  }
  return traced;
}

}  // namespace attend::program
