#pragma once

#include "attend/enum_names.h"

namespace attend::app {

/// What a trained model can be written as.
enum class ExportFormat {
  torchscript,  ///< code and weights, for torch.jit.load
  pt2,          ///< a graph and weights, for torch.export.load
  onnx,         ///< a graph of ONNX operators, for onnxruntime and others
  safetensors,  ///< weights alone
};

}  // namespace attend::app

namespace attend {

template <>
struct EnumNames<app::ExportFormat> {
  static constexpr std::array<std::string_view, 4> names{"torchscript", "pt2", "onnx",
                                                         "safetensors"};
};

}  // namespace attend
