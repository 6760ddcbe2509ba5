#pragma once

#include "attend/enum_names.h"

namespace attend::app {

/// File format of an exported model.
enum class ExportFormat {
  torchscript,  ///< code and weights; torch.jit.load
  pt2,          ///< graph and weights; torch.export.load
  onnx,         ///< ONNX graph and weights; onnxruntime
  safetensors,  ///< weights only
};

}  // namespace attend::app

namespace attend {

template <>
struct EnumNames<app::ExportFormat> {
  static constexpr std::array<std::string_view, 4> names{"torchscript", "pt2", "onnx",
                                                         "safetensors"};
};

}  // namespace attend
