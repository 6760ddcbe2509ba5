#include "attend/export/torchscript.h"

#include "export/check_names.h"
#include "export/check_options.h"
#include "export/compare.h"
#include "export/export_guard.h"
#include "export/lifted_sizes.h"
#include "export/nested.h"
#include "export/specialized_dimension.h"
#include "export/trace.h"
#include "export/verify.h"
#include "io/files.h"
#include "ops/rng_state.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <stdexcept>

namespace attend {
namespace {

namespace jit = torch::jit;

/// Returns a method of a ScriptModule, which takes nested `arguments`, as a function of tensors.
Forward function_of(const jit::Method& method, const std::vector<ForwardArgument>& arguments) {
  return [method, arguments](const std::vector<torch::Tensor>& inputs) -> Outputs {
    return flatten(method(nest(arguments, inputs)));
  };
}

/// Adds to `called` the name of a method and the names of all methods that it calls, directly or
/// through other methods.
void add_called_methods(const jit::Module& module, const std::string& name,
                        std::set<std::string>& called) {
  if (!called.insert(name).second) return;
  const std::function<void(const jit::Block&)> search = [&](const jit::Block& block) {
    for (const auto* node : block.nodes()) {
      if (node->kind() == c10::prim::CallMethod) {
        const auto& callee = node->s(jit::attr::name);
        if (module.find_method(callee)) add_called_methods(module, callee, called);
      }
      for (const auto* inner : node->blocks()) search(*inner);
    }
  };
  search(*module.get_method(name).graph()->block());
}

/// Defines the methods in `methods.source`, and checks that `methods.calls` run all of these
/// methods.
void define_methods(jit::Module& scripted, const TorchScriptMethods& methods) {
  std::set<std::string> traced;
  for (const auto& method : scripted.get_methods()) traced.insert(method.name());
  if (!methods.source.empty()) scripted.define(methods.source);
  std::set<std::string> called;
  for (const auto& call : methods.calls) {
    const auto method = scripted.find_method(call.method);
    TORCH_CHECK_VALUE(method && traced.count(call.method) == 0,
                      "each call must name a method that the TorchScript source defines, found '",
                      call.method, "'");
    add_called_methods(scripted, call.method, called);
  }
  for (const auto& method : scripted.get_methods()) {
    TORCH_CHECK_VALUE(traced.count(method.name()) > 0 || called.count(method.name()) > 0,
                      "no call runs the method '", method.name(),
                      "' of the TorchScript source; add a call with example arguments to "
                      "`TorchScriptMethods::calls`");
  }
}

/// Runs `call` on the loaded file. Returns the largest absolute difference between the outputs
/// and the expected outputs, or 0 if `call.expected` is not set.
double run_call(const jit::Module& file, const TorchScriptCall& call, torch::Device device,
                double tolerance) {
  const auto rng = rng_state(rng_devices(device));
  std::vector<torch::Tensor> expected;
  if (call.expected) expected = call.expected().tensors;
  set_rng_state(rng);
  std::vector<torch::Tensor> found;
  try {
    jit::Stack arguments;
    for (const auto& argument : call.arguments) arguments.push_back(argument.deepcopy());
    const auto result = file.get_method(call.method)(std::move(arguments));
    if (call.expected) found = flatten(result);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("method '{}' fails in the exported program: {}",
                                         call.method, short_message(error)));
  }
  if (found.size() != expected.size()) {
    throw std::runtime_error(fmt::format("method '{}' returns {} tensors, expected {}", call.method,
                                         found.size(), expected.size()));
  }
  double largest = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, compare(found[i], expected[i], tolerance,
                                        fmt::format("method '{}' returns", call.method)));
  }
  return largest;
}

/// Exports the trace of `forward` with `traced_inputs`, see `export_with_retries`.
ExportReport export_trace(torch::nn::Module& module, const Forward& forward,
                          const std::vector<torch::Tensor>& example_inputs,
                          const std::vector<torch::Tensor>& traced_inputs,
                          const std::filesystem::path& path, const ExportOptions& options,
                          const TorchScriptMethods& methods) {
  ExportGuard guard(module, example_inputs, options, TargetFormat::torchscript);
  auto traced = methods.traced;
  traced.insert(traced.begin(), {"forward", forward, traced_inputs, options.input_names,
                                 options.dynamic, options.arguments});
  auto scripted = to_script_module(module);
  std::map<std::string, TraceSummary> traces;  // by method
  for (const auto& method : traced) {
    with_method_name(method, "forward", [&] {
      auto& trace = traces[method.name] = trace_method(scripted, module, method);
      nest_graph(*scripted.get_method(method.name).graph(), method.arguments, trace.outputs);
    });
  }
  for (const auto& method : scripted.get_methods()) {
    for (const auto& constant : graph_constants(*method.graph())) {
      if (constant.isTensor()) guard.add_constant(constant.toTensor());
    }
  }
  define_methods(scripted, methods);

  guard.restore();
  ExportReport report;
  replace_file(path, [&](const std::filesystem::path& temporary) {
    // save(path) would name the archive's root folder after the file, and the content of the file
    // would then depend on its name.
    write_stream(temporary, path, [&](std::ostream& file) {
      jit::ExportModule(scripted, archive_writer(file),
                        {options.extra_files.begin(), options.extra_files.end()});
    });
    auto file = jit::load(temporary.string());
    file.eval();
    std::map<std::string, torch::Tensor> loaded_parameters;
    for (const auto& item : file.named_parameters()) loaded_parameters[item.name] = item.value;
    guard.share_parameters(loaded_parameters);
    // The graph optimizer is disabled, since the optimizer takes longer than the few runs of
    // `verify`.
    const jit::GraphOptimizerEnabledGuard not_optimized(false);
    for (const auto& method : traced) {
      const bool is_forward = method.name == "forward";
      const ExportOptions verify_options{
          .output_names = is_forward ? options.output_names : std::vector<std::string>(),
          .dynamic = method.dynamic,
          .tolerance = options.tolerance};
      with_method_name(method, "forward", [&] {
        const auto loaded = function_of(file.get_method(method.name), method.arguments);
        const auto verified =
            verify(guard, {module, loaded, is_forward ? example_inputs : method.example_inputs,
                           traces.at(method.name), verify_options});
        // `forward` is the first method in `traced`, so the assignment overwrites no results.
        if (is_forward) report = verified;
        report.max_abs_diff = std::max(report.max_abs_diff, verified.max_abs_diff);
      });
    }
    for (const auto& call : methods.calls) {
      const auto device = example_inputs.front().device();
      report.max_abs_diff =
          std::max(report.max_abs_diff, run_call(file, call, device, options.tolerance));
    }
    guard.restore();
  });
  return report;
}

}  // namespace

ExportReport export_torchscript(ModuleRef module, const Forward& forward,
                                const std::vector<torch::Tensor>& example_inputs,
                                const std::filesystem::path& path, const ExportOptions& options,
                                const TorchScriptMethods& methods) {
  check_methods(methods.traced, "forward", TargetFormat::torchscript);
  return export_with_retries(example_inputs, [&](const std::vector<torch::Tensor>& inputs) {
    return export_trace(*module, forward, example_inputs, inputs, path, options, methods);
  });
}

}  // namespace attend
