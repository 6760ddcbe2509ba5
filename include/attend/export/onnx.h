#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "attend/module_ref.h"

namespace attend {

/// Options of `export_onnx` besides those of all exporters.
///
///     OnnxOptions{.opset = 20, .external_data = true}
struct OnnxOptions {
  /// Version of ONNX's operators, 17 to 23. In newer opsets, the file contains operators that older
  /// runtimes lack, such as Gelu (20), and RMSNormalization and Attention (23).
  int64_t opset = 18;
  /// Writes the weights to a second file, as external data of ONNX, also if they fit into one file.
  /// The name of the second file is that of the first with ".data" appended. Weights of less than
  /// 1024 bytes remain in the first file. A file of 2 GiB or more would exceed the limit of
  /// protobuf; the second file is then written in any case.
  bool external_data = false;
};

/// Exports a module to ONNX. `forward` is traced with `example_inputs` in eval mode, and
/// each ATen operator of the trace is converted to ONNX operators. Parameters and buffers keep
/// their state dict names.
///
/// The traced program is verified before the file is written: it is run and compared with the
/// module on the example inputs, on other values and at other sizes of the dynamic dimensions. The
/// ONNX file itself is not run, since LibTorch has no ONNX runtime. Extra files are written as
/// metadata properties and must be UTF-8. In the ONNX file of a float64 module, some operators
/// compute in float32; docs/export.md lists these operators.
///
/// If the file would have 2 GiB or more, or if `onnx.external_data` is set, the weights are written
/// to a second file, `ExportReport::external_data`. Both files must remain in the same folder.
///
/// Throws c10::ValueError if the options do not match the inputs, or if `onnx.opset` is not 17 to
/// 23. Throws std::runtime_error if an operator is not supported (the message names it and its call
/// site), or if the outputs of the traced program differ from those of the module. If the cause is
/// an operator that specialized a dynamic dimension, that is, fixed its size during tracing, the
/// message names this operator and its call site.
///
///     export_onnx(model, [&](const auto& in) { return model(in[0]); }, {tokens}, "model.onnx",
///                 {.dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 64}}});
ATTEND_API ExportReport export_onnx(ModuleRef module, const Forward& forward,
                                    const std::vector<torch::Tensor>& example_inputs,
                                    const std::filesystem::path& path, const ExportOptions& options,
                                    const OnnxOptions& onnx = {});

/// Exports a module whose forward takes one tensor. `module` is a holder, a std::shared_ptr or a
/// torch::nn::AnyModule, or a module itself.
///
///     export_onnx(block, x, "block.onnx", {.dynamic = {{0, 1, "length"}}});
template <typename Module>
ExportReport export_onnx(Module&& module, const torch::Tensor& example_input,
                         const std::filesystem::path& path, const ExportOptions& options,
                         const OnnxOptions& onnx = {}) {
  return export_onnx(ModuleRef(module), forward_of(module), {example_input}, path, options, onnx);
}

/// Exports a module whose forward has nested inputs (see docs/export.md). `forward` takes one
/// argument for each element of `example_inputs`: a tensor, or a std::map, std::vector, std::tuple,
/// std::pair or std::optional of tensors.
///
///     using Batch = std::map<std::string, torch::Tensor>;
///     const auto forward = [&](const Batch& in) { return model(in.at("tokens")); };
///     export_onnx(model, forward, std::tuple(Batch{{"tokens", tokens}}), "model.onnx", {});
template <typename Function, typename... Inputs>
ExportReport export_onnx(ModuleRef module, const Function& forward,
                         const std::tuple<Inputs...>& example_inputs,
                         const std::filesystem::path& path, const ExportOptions& options,
                         const OnnxOptions& onnx = {}) {
  const auto call = flatten_call(forward, example_inputs, options);
  return export_onnx(module, call.forward, call.inputs, path, call.options, onnx);
}

}  // namespace attend
