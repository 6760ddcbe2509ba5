#pragma once

#include "attend/export/export_options.h"

#include <torch/nn/module.h>

namespace attend {

/// Writes a module as an archive of torch.export, which Python's torch.export.load and `load_pt2`
/// read: its forward is traced with `example_inputs`, in eval mode, and parameters and buffers keep
/// the names that they have in its state dict. What is written is read back, run and compared with
/// the module on the example and at other sizes of the dynamic dimensions before it takes the name
/// `path`; nothing is left behind if that fails.
///
/// `forward` computes the module's result from inputs like `example_inputs`. Python's
/// `torch.export.load(extra_files=...)` returns the extra files, which must be UTF-8.
/// Throws c10::ValueError for options that do not fit the inputs, std::runtime_error if file and
/// module differ, naming the operation that froze a size and where it was called, or for an
/// operation that such an archive cannot hold.
///
///     export_pt2(*model, [&](const auto& in) { return model(in[0]); }, {tokens}, "model.pt2",
///                {.dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 64}}});
ExportReport export_pt2(torch::nn::Module& module, const Forward& forward,
                        const std::vector<torch::Tensor>& example_inputs,
                        const std::filesystem::path& path, const ExportOptions& options);

/// The same for a module whose forward takes one tensor.
///
///     export_pt2(block, x, "block.pt2", {.dynamic = {{0, 1, "length"}}});
template <typename Contained>
ExportReport export_pt2(torch::nn::ModuleHolder<Contained> module,
                        const torch::Tensor& example_input, const std::filesystem::path& path,
                        const ExportOptions& options) {
  return export_pt2(*module, forward_of(module), {example_input}, path, options);
}

}  // namespace attend
