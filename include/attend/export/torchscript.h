#pragma once

#include "attend/export/export_options.h"

#include <torch/nn/module.h>

namespace attend {

/// A function over the same module, beside forward.
struct TorchScriptMethod {
  std::string name;
  Forward function;
  std::vector<torch::Tensor> example_inputs;
  std::vector<std::string> input_names = {};
  std::vector<DynamicDimension> dynamic = {};
};

/// What a TorchScript file offers beside forward.
struct TorchScriptMethods {
  /// Traced, and proved, as forward is.
  std::vector<TorchScriptMethod> traced = {};
  /// Methods in TorchScript, which may call forward and the traced ones: for what needs loops.
  std::string source = {};
};

/// Writes a module as TorchScript: its forward is traced with `example_inputs`, in eval mode, and
/// parameters and buffers keep the names that they have in its state dict. What is written is
/// loaded and compared with the module on the example and at other sizes of the dynamic dimensions
/// before it takes the name `path`; nothing is left behind if that fails.
///
/// `forward` computes the module's result from inputs like `example_inputs`. Python's
/// `torch.jit.load(_extra_files=...)` returns the extra files.
/// Throws c10::ValueError for options that do not fit the inputs, std::runtime_error if file and
/// module differ, naming the operation that froze a size and where it was called.
///
///     export_torchscript(*model, [&](const auto& in) { return model(in[0]); }, {tokens},
///                        "model.pt", {.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}});
ExportReport export_torchscript(torch::nn::Module& module, const Forward& forward,
                                const std::vector<torch::Tensor>& example_inputs,
                                const std::filesystem::path& path, const ExportOptions& options,
                                const TorchScriptMethods& methods = {});

/// The same for a module whose forward takes one tensor.
///
///     export_torchscript(block, x, "block.pt", {.dynamic = {{0, 1, "length"}}});
template <typename Contained>
ExportReport export_torchscript(torch::nn::ModuleHolder<Contained> module,
                                const torch::Tensor& example_input,
                                const std::filesystem::path& path, const ExportOptions& options) {
  return export_torchscript(*module, forward_of(module), {example_input}, path, options);
}

}  // namespace attend
