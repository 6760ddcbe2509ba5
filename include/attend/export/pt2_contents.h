#pragma once

#include "attend/io/tensor_info.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// What is in a .pt2 archive of torch.export.
struct Pt2Contents {
  std::vector<TensorInfo> tensors;              ///< parameters, then buffers
  std::vector<std::string> inputs;              ///< "tokens: int64 (s0 = 1.., s1 = 1..64)"
  std::map<std::string, int64_t> operators;     ///< how often each is called: "aten::addmm"
  std::map<std::string, uint64_t> extra_files;  ///< bytes by name
};

/// Says what is in an archive of any origin, whatever operators it calls, and runs nothing. Throws
/// InputError, naming the file and the place in it, for an archive that is not as it should be.
///
///     pt2_contents("model.pt2").operators.at("aten::addmm")
Pt2Contents pt2_contents(const std::filesystem::path& path);

}  // namespace attend
