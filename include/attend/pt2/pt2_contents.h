#pragma once

#include "attend/api.h"
#include "attend/io/tensor_info.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// Contents of a .pt2 archive of torch.export.
struct Pt2Contents {
  std::vector<TensorInfo> tensors;  ///< parameters, then buffers
  /// Name, dtype and shape of each input, with the range of each dynamic size:
  /// "tokens: int64 (s0 = 1.., s1 = 1..64)".
  std::vector<std::string> inputs;
  std::map<std::string, int64_t> operators;     ///< number of calls, by name: "aten::addmm"
  std::map<std::string, uint64_t> extra_files;  ///< sizes in bytes, by name
};

/// Returns the contents of an archive written by any exporter. The archive may contain operators
/// that `load_pt2` does not allow. Runs no code. Throws InputError if the archive is invalid. The
/// message names the file and the position in it.
///
///     pt2_contents("model.pt2").operators.at("aten::addmm")
ATTEND_API Pt2Contents pt2_contents(const std::filesystem::path& path);

}  // namespace attend
