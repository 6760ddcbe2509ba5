#include "attend/export/torchscript.h"

#include "export/check_options.h"
#include "export/export_guard.h"
#include "export/specialized_dimension.h"
#include "export/trace.h"
#include "export/verify.h"
#include "io/files.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>

namespace attend {
namespace {

namespace jit = torch::jit;

/// Returns a method of a ScriptModule as a function.
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

/// Returns the constant tensors of a graph.
std::vector<torch::Tensor> constants_of(const jit::Graph& graph) {
  std::vector<torch::Tensor> all;
  for (const auto* node : graph.nodes()) {
    if (node->kind() != c10::prim::Constant) continue;
    const auto value = jit::toIValue(node->output());
    if (value && value->isTensor()) all.push_back(value->toTensor());
  }
  return all;
}

void check_methods(const TorchScriptMethods& methods) {
  std::set<std::string> seen{"forward"};
  for (const auto& method : methods.traced) {
    check_name("the name of a method", method.name);
    TORCH_CHECK_VALUE(seen.insert(method.name).second, "method names must be unique, found '",
                      method.name, "' more than once");
    try {
      check_options({.input_names = method.input_names, .dynamic = method.dynamic},
                    method.example_inputs);
    } catch (const c10::Error& error) {
      TORCH_CHECK_VALUE(false, "method '", method.name, "': ", error.what_without_backtrace());
    }
  }
}

/// Calls `action`. If it throws, adds the method name to the message, unless the method is forward.
void with_method_name(const TorchScriptMethod& method, const std::function<void()>& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    if (method.name == "forward") throw;
    throw std::runtime_error(fmt::format("method '{}': {}", method.name, error.what()));
  }
}

}  // namespace

ExportReport export_torchscript(torch::nn::Module& module, const Forward& forward,
                                const std::vector<torch::Tensor>& example_inputs,
                                const std::filesystem::path& path, const ExportOptions& options,
                                const TorchScriptMethods& methods) {
  check_methods(methods);
  ExportGuard guard(module, example_inputs, options);
  auto traced = methods.traced;
  traced.insert(traced.begin(),
                {"forward", forward, example_inputs, options.input_names, options.dynamic});
  auto scripted = to_script_module(module);
  for (const auto& method : traced) {
    with_method_name(method, [&] {
      add_traced_method(scripted, method.name, method.function, method.example_inputs,
                        method.input_names);
      check_recurrent_layers(scripted, method.name, module, method.function, method.example_inputs,
                             method.dynamic);
    });
  }
  for (const auto& method : scripted.get_methods()) {
    for (const auto& tensor : constants_of(*method.graph())) guard.add_constant(tensor);
  }
  if (!methods.source.empty()) scripted.define(methods.source);

  guard.restore();
  // The module is saved to memory, since save(file) would name the archive's root folder after the
  // file, so that the content of the file would depend on the file's name.
  std::stringstream bytes;
  scripted.save(bytes, {options.extra_files.begin(), options.extra_files.end()});
  auto file = jit::load(bytes);
  file.eval();
  // The graph optimizer is disabled, since it takes longer than the few runs of `verify`.
  const jit::GraphOptimizerEnabledGuard not_optimized(false);
  ExportReport report;
  for (const auto& method : traced) {
    const bool is_forward = method.name == "forward";
    const ExportOptions verify_options{
        .output_names = is_forward ? options.output_names : std::vector<std::string>(),
        .dynamic = method.dynamic,
        .tolerance = options.tolerance};
    with_method_name(method, [&] {
      const auto loaded = file.get_method(method.name);
      const auto verified =
          verify(guard, module, function_of(loaded), method.function, method.example_inputs,
                 integer_constants(*loaded.graph()), verify_options);
      report.max_abs_diff = std::max(report.max_abs_diff, verified.max_abs_diff);
      if (!is_forward) return;
      report.num_verified_shapes = verified.num_verified_shapes;
      report.verified_sizes = verified.verified_sizes;
      report.verified_other_values = verified.verified_other_values;
    });
  }
  replace_file(path, bytes.view());
  return report;
}

}  // namespace attend
