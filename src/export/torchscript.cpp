#include "attend/export/torchscript.h"

#include "attend/io/files.h"
#include "export/check_options.h"
#include "export/export_scope.h"
#include "export/frozen_size.h"
#include "export/prove.h"
#include "export/trace.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <set>
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

void check_methods(const TorchScriptMethods& methods) {
  std::set<std::string> met{"forward"};
  for (const auto& method : methods.traced) {
    check_name("the name of a method", method.name);
    TORCH_CHECK_VALUE(met.insert(method.name).second, "a method '", method.name,
                      "' is there twice");
    try {
      check_options({.input_names = method.input_names, .dynamic = method.dynamic},
                    method.example_inputs);
    } catch (const c10::Error& error) {
      TORCH_CHECK_VALUE(false, "method '", method.name, "': ", error.what_without_backtrace());
    }
  }
}

}  // namespace

ExportReport export_torchscript(torch::nn::Module& module, const Forward& forward,
                                const std::vector<torch::Tensor>& example_inputs,
                                const std::filesystem::path& path, const ExportOptions& options,
                                const TorchScriptMethods& methods) {
  check_methods(methods);
  ExportScope scope(module, example_inputs, options);
  auto scripted = mirror(module);
  add_traced_method(scripted, "forward", forward, example_inputs, options.input_names);
  refuse_sizes_frozen_in_recurrent_layers(scripted, "forward", module, forward, example_inputs,
                                          options.dynamic);
  for (const auto& method : methods.traced) {
    add_traced_method(scripted, method.name, method.function, method.example_inputs,
                      method.input_names);
    refuse_sizes_frozen_in_recurrent_layers(scripted, method.name, module, method.function,
                                            method.example_inputs, method.dynamic);
  }
  if (!methods.source.empty()) scripted.define(methods.source);

  scope.restore();
  // In memory first: a file would give its name to the archive's folder.
  std::stringstream bytes;
  scripted.save(bytes, {options.extra_files.begin(), options.extra_files.end()});
  auto file = jit::load(bytes);
  file.eval();
  // Without the optimiser, which takes long for what is run a few times.
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
