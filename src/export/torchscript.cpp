#include "attend/export/torchscript.h"

#include "attend/io/files.h"
#include "attend/nn/eval_scope.h"
#include "export/check_options.h"
#include "export/frozen_size.h"
#include "export/prove.h"
#include "export/trace.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>

namespace attend {
namespace {

namespace jit = torch::jit;

/// A method of a loaded file, as a function.
Forward function_of(const jit::Method& method) {
  return [method](const std::vector<torch::Tensor>& inputs) -> Outputs {
    auto call = method;
    const auto result = call(jit::Stack(inputs.begin(), inputs.end()));
    if (result.isTensor()) return result.toTensor();
    std::vector<torch::Tensor> outputs;
    for (const auto& output : result.toTupleRef().elements()) outputs.push_back(output.toTensor());
    return outputs;
  };
}

}  // namespace

ExportReport export_torchscript(torch::nn::Module& module, const Forward& forward,
                                const std::vector<torch::Tensor>& example_inputs,
                                const std::filesystem::path& path, const ExportOptions& options,
                                const TorchScriptMethods& methods) {
  check_options(options, example_inputs);
  for (const auto& method : methods.traced) {
    check_options({.input_names = method.input_names, .dynamic = method.dynamic},
                  method.example_inputs);
  }
  const EvalScope eval(module);
  const torch::NoGradGuard no_grad;
  auto scripted = mirror(module);
  add_traced_method(scripted, "forward", forward, example_inputs, options.input_names);
  check_recurrent_layers(scripted, "forward", module, forward, example_inputs, options.dynamic);
  for (const auto& method : methods.traced) {
    add_traced_method(scripted, method.name, method.function, method.example_inputs,
                      method.input_names);
    check_recurrent_layers(scripted, method.name, module, method.function, method.example_inputs,
                           method.dynamic);
  }
  if (!methods.source.empty()) scripted.define(methods.source);

  // In memory first: a file would give its name to the archive's folder.
  std::stringstream bytes;
  scripted.save(bytes, {options.extra_files.begin(), options.extra_files.end()});
  auto file = jit::load(bytes);
  file.eval();
  // Without the optimiser, which takes long for what is run three times.
  const jit::GraphOptimizerEnabledGuard not_optimized(false);
  auto report =
      prove(module, function_of(file.get_method("forward")), forward, example_inputs, options);
  for (const auto& method : methods.traced) {
    const auto proved =
        prove(module, function_of(file.get_method(method.name)), method.function,
              method.example_inputs, {.dynamic = method.dynamic, .tolerance = options.tolerance});
    report.max_difference = std::max(report.max_difference, proved.max_difference);
  }
  replace_file(path, bytes.view());
  return report;
}

}  // namespace attend
