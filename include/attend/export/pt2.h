#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "attend/module_ref.h"

namespace attend {

/// Exports a module to a .pt2 archive, which `load_pt2` and Python's `torch.export.load` read.
/// `forward` is traced with `example_inputs` in eval mode. Parameters and buffers keep their state
/// dict names.
///
/// The archive is verified before it is written to `path`: it is loaded, run and compared with the
/// module on the example inputs, on other values and at other sizes of the dynamic dimensions.
/// Extra files must be UTF-8; `torch.export.load(extra_files=...)` returns them.
///
/// Throws c10::ValueError if the options do not match the inputs. Throws std::runtime_error if the
/// traced program cannot be represented in an archive (see docs/export.md), or if the outputs of
/// the archive differ from those of the module. If the cause is an operator that specialized a
/// dynamic dimension, that is, fixed its size during tracing, the message names this operator and
/// its call site.
///
/// `methods` are further programs in the archive. They are exported and verified in the same way,
/// and share the weights in the file. The program of forward has the name "model". `load_pt2` loads
/// the program that `Pt2LoadOptions::model` names.
///
///     export_pt2(model, [&](const auto& in) { return model(in[0]); }, {tokens}, "model.pt2",
///                {.dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 64}}});
ATTEND_API ExportReport export_pt2(ModuleRef module, const Forward& forward,
                                   const std::vector<torch::Tensor>& example_inputs,
                                   const std::filesystem::path& path, const ExportOptions& options,
                                   const std::vector<TracedMethod>& methods = {});

/// Exports a module whose forward takes one tensor. `module` is a holder, a std::shared_ptr or a
/// torch::nn::AnyModule, or a module itself.
///
///     export_pt2(block, x, "block.pt2", {.dynamic = {{0, 1, "length"}}});
template <typename Module>
ExportReport export_pt2(Module&& module, const torch::Tensor& example_input,
                        const std::filesystem::path& path, const ExportOptions& options) {
  return export_pt2(ModuleRef(module), forward_of(module), {example_input}, path, options);
}

/// Exports a module whose forward has nested inputs (see docs/export.md). `forward` takes one
/// argument for each element of `example_inputs`: a tensor, or a std::map, std::vector, std::tuple,
/// std::pair or std::optional of tensors.
///
///     using Batch = std::map<std::string, torch::Tensor>;
///     const auto forward = [&](const Batch& in) { return model(in.at("tokens")); };
///     export_pt2(model, forward, std::tuple(Batch{{"tokens", tokens}}), "model.pt2", {});
template <typename Function, typename... Inputs>
ExportReport export_pt2(ModuleRef module, const Function& forward,
                        const std::tuple<Inputs...>& example_inputs,
                        const std::filesystem::path& path, const ExportOptions& options,
                        const std::vector<TracedMethod>& methods = {}) {
  const auto call = flatten_call(forward, example_inputs, options);
  return export_pt2(module, call.forward, call.inputs, path, call.options, methods);
}

}  // namespace attend
