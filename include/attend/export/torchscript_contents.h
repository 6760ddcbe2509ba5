#pragma once

#include "attend/api.h"
#include "attend/io/tensor_info.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// Contents of a TorchScript file.
struct TorchScriptContents {
  std::vector<TensorInfo> tensors;              ///< parameters, then buffers
  std::vector<std::string> methods;             ///< such as "forward(tokens: Tensor) -> Tensor"
  std::map<std::string, uint64_t> extra_files;  ///< sizes in bytes, by name
};

/// Returns the contents of a TorchScript file. Safe for untrusted files: unlike torch::jit::load,
/// this function runs no code from the file. Throws InputError if the file does not exist, is
/// corrupt, is not a TorchScript file, or contains quantized or sparse parameters or buffers.
///
///     torchscript_contents("model.pt").methods
ATTEND_API TorchScriptContents torchscript_contents(const std::filesystem::path& path);

}  // namespace attend
