#pragma once

#include "attend/api.h"

#include <filesystem>

namespace attend {

/// Format of a model or weight file.
enum class FileKind {
  safetensors,  ///< safetensors: header length, JSON header, tensor data
  torchscript,  ///< TorchScript archive (.pt)
  pt2,          ///< torch.export archive (.pt2)
  onnx,         ///< ONNX model (.onnx)
};

/// Detects the format of a file from its content; the file name has no effect. Runs no code from
/// the file. Throws InputError if the file has none of the formats in `FileKind`. The message
/// describes what was found.
///
///     file_kind("model.safetensors") == FileKind::safetensors
ATTEND_API FileKind file_kind(const std::filesystem::path& path);

}  // namespace attend
