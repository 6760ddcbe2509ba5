#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// How `export_torchscript` writes and proves its file.
struct TorchScriptOptions {
  /// Names of forward's inputs in the file; input0, input1, ... if empty.
  std::vector<std::string> input_names = {};
  /// Inputs of other shapes than the traced ones, on which the written file must agree with the
  /// module: a size that the trace froze shows only there. At least one is needed.
  std::vector<std::vector<torch::Tensor>> check_inputs = {};
  /// Text stored in the file by name; Python's `torch.jit.load(_extra_files=...)` returns it.
  std::map<std::string, std::string> extra_files = {};
  /// How far the file may be from the module: |difference| <= tolerance * (1 + |value|).
  double tolerance = 1e-5;
};

/// What was proved of a written file.
struct ExportReport {
  double max_difference = 0.0;  ///< largest absolute one between file and module, over all checks
  std::vector<std::vector<int64_t>> checked_shapes;  ///< of the first input of each check
};

/// Writes a module as TorchScript: its forward is traced with `example_inputs`, in eval mode, and
/// parameters and buffers keep the names that they have in its state dict. What is
/// written is loaded and compared with the module on `example_inputs` and `options.check_inputs`
/// before it takes the name `path`; nothing is left behind if that fails.
///
/// `forward` computes the module's result from inputs like `example_inputs`.
/// Throws c10::ValueError if there are no check inputs, std::runtime_error if file and module
/// differ.
///
///     export_torchscript(*model, [&](const auto& in) { return model(in[0]); }, {tokens},
///                        "model.pt", {.check_inputs = {{longer_tokens}}});
ExportReport export_torchscript(
    torch::nn::Module& module,
    const std::function<torch::Tensor(const std::vector<torch::Tensor>&)>& forward,
    const std::vector<torch::Tensor>& example_inputs, const std::filesystem::path& path,
    const TorchScriptOptions& options);

/// The same for a module whose forward takes one tensor.
///
///     export_torchscript(block, x, "block.pt", {.check_inputs = {{longer_x}}});
template <typename Contained>
ExportReport export_torchscript(torch::nn::ModuleHolder<Contained> module,
                                const torch::Tensor& example_input,
                                const std::filesystem::path& path,
                                const TorchScriptOptions& options) {
  return export_torchscript(
      *module,
      [&](const std::vector<torch::Tensor>& inputs) { return module->forward(inputs.at(0)); },
      {example_input}, path, options);
}

}  // namespace attend
