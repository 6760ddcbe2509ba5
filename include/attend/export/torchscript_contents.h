#pragma once

#include "attend/io/tensor_info.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// What is in a TorchScript file.
struct TorchScriptContents {
  std::vector<TensorInfo> tensors;              ///< parameters, then buffers
  std::vector<std::string> methods;             ///< "forward(Tensor tokens) -> Tensor"
  std::map<std::string, uint64_t> extra_files;  ///< bytes by name
};

/// Loads a TorchScript file and says what is in it. Loading can run code of the file: only for
/// files from somebody whom you trust. Throws InputError if it is missing, damaged, or an archive
/// of another kind, naming that.
///
///     torchscript_contents("model.pt").methods
TorchScriptContents torchscript_contents(const std::filesystem::path& path);

}  // namespace attend
