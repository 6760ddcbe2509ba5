#pragma once

#include "attend/export/export_options.h"

#include <torch/nn/module.h>

namespace attend {

/// Writes a module as ONNX: its forward is traced with `example_inputs`, in eval mode, and its
/// operators are written as those of ONNX, opset 18; parameters and buffers keep the names that
/// they have in its state dict. The traced operators are run and compared with the module on the
/// example and at other sizes of the dynamic dimensions; the ONNX file itself needs a runtime such
/// as onnxruntime, which LibTorch has not.
///
/// `forward` computes the module's result from inputs like `example_inputs`. The extra files become
/// metadata properties of the model, and have to be UTF-8. Nodes that do not take a type compute in
/// another; docs/export.md says which.
/// Throws c10::ValueError for options that do not fit the inputs, std::runtime_error if trace and
/// module differ, naming the operation that froze a size and where it was called, or for an
/// operator that no rule translates, naming it and the module that called it.
///
///     export_onnx(*model, [&](const auto& in) { return model(in[0]); }, {tokens}, "model.onnx",
///                 {.dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 64}}});
ExportReport export_onnx(torch::nn::Module& module, const Forward& forward,
                         const std::vector<torch::Tensor>& example_inputs,
                         const std::filesystem::path& path, const ExportOptions& options);

/// The same for a module whose forward takes one tensor.
///
///     export_onnx(block, x, "block.onnx", {.dynamic = {{0, 1, "length"}}});
template <typename Contained>
ExportReport export_onnx(torch::nn::ModuleHolder<Contained> module,
                         const torch::Tensor& example_input, const std::filesystem::path& path,
                         const ExportOptions& options) {
  return export_onnx(*module, forward_of(module), {example_input}, path, options);
}

}  // namespace attend
