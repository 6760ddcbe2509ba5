#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "attend/module_ref.h"

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <vector>

namespace attend {

/// A call of a method in `TorchScriptMethods::source`. The exporter runs the call before it writes
/// the file.
///
///     TorchScriptCall{.method = "generate", .arguments = {prompt, 10}}
struct TorchScriptCall {
  std::string method;  ///< name of the method
  /// Arguments of the call, in order. Parameters after the last argument have their default values.
  std::vector<c10::IValue> arguments;
  /// Function that returns the expected outputs of the call. They are compared with the outputs of
  /// the call in the same way as for forward. The function and the method run in eval mode, and
  /// begin with the same state of the random number generators. If this function is empty, the
  /// outputs of the call are not compared, but the call must succeed.
  std::function<Outputs()> expected = {};
};

/// Methods that the TorchScript file contains in addition to forward.
struct TorchScriptMethods {
  /// Methods that are traced and verified in the same way as forward.
  std::vector<TracedMethod> traced = {};
  /// TorchScript source of further methods, which may contain control flow. These methods may call
  /// forward and the methods in `traced`.
  std::string source = {};
  /// Calls that run the methods in `source`. Each of these methods must be called, or be used by a
  /// method that is called.
  std::vector<TorchScriptCall> calls = {};
};

/// Exports a module to TorchScript. `forward` is traced with `example_inputs` in eval mode.
/// Parameters and buffers keep their state dict names.
///
/// The file is verified before it is written to `path`: it is loaded, run and compared with the
/// module on the example inputs, on other values and at other sizes of the dynamic dimensions. The
/// methods in `methods.source` are run with the arguments in `methods.calls`.
/// `torch.jit.load(_extra_files=...)` returns the extra files.
///
/// Throws c10::ValueError if the options do not match the inputs, or if the calls in
/// `methods.calls` do not run every method in `methods.source`. Throws std::runtime_error if the
/// outputs of the file differ from those of the module, or if one of these calls fails. If the
/// cause is an operator that specialized a dynamic dimension, that is, fixed its size during
/// tracing, the message names this operator and its call site.
///
///     export_torchscript(model, [&](const auto& in) { return model(in[0]); }, {tokens},
///                        "model.pt", {.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}});
ATTEND_API ExportReport export_torchscript(ModuleRef module, const Forward& forward,
                                           const std::vector<torch::Tensor>& example_inputs,
                                           const std::filesystem::path& path,
                                           const ExportOptions& options,
                                           const TorchScriptMethods& methods = {});

/// Exports a module whose forward takes one tensor. `module` is a holder, a std::shared_ptr or a
/// torch::nn::AnyModule, or a module itself.
///
///     export_torchscript(block, x, "block.pt", {.dynamic = {{0, 1, "length"}}});
template <typename Module>
ExportReport export_torchscript(Module&& module, const torch::Tensor& example_input,
                                const std::filesystem::path& path, const ExportOptions& options) {
  return export_torchscript(ModuleRef(module), forward_of(module), {example_input}, path, options);
}

/// Exports a module whose forward has nested inputs (see docs/export.md). `forward` takes one
/// argument for each element of `example_inputs`: a tensor, or a std::map, std::vector, std::tuple,
/// std::pair or std::optional of tensors.
///
///     using Batch = std::map<std::string, torch::Tensor>;
///     const auto forward = [&](const Batch& in) { return model(in.at("tokens")); };
///     export_torchscript(model, forward, std::tuple(Batch{{"tokens", tokens}}), "model.pt", {});
template <typename Function, typename... Inputs>
ExportReport export_torchscript(ModuleRef module, const Function& forward,
                                const std::tuple<Inputs...>& example_inputs,
                                const std::filesystem::path& path, const ExportOptions& options,
                                const TorchScriptMethods& methods = {}) {
  const auto call = flatten_call(forward, example_inputs, options);
  return export_torchscript(module, call.forward, call.inputs, path, call.options, methods);
}

}  // namespace attend
