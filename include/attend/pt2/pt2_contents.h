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
  /// Name, dtype and shape of each input, with the range of each dynamic size, such as
  /// "tokens: int64 (s0 = 1.., s1 = 1..64)". For an input that is a number, its name and range,
  /// such as "count: number s0 = 0..".
  std::vector<std::string> inputs;
  /// Number of calls of each operator. The keys are names of operators, such as "aten::addmm".
  std::map<std::string, int64_t> operators;
  std::map<std::string, uint64_t> extra_files;  ///< sizes in bytes, by file name
};

/// Returns the contents of an archive written by any exporter. Does not run the exported program.
/// The program may therefore contain operators that `load_pt2` does not allow. Throws InputError if
/// the archive is invalid. The message names the file and the position in the file.
///
///     pt2_contents("model.pt2").operators.at("aten::addmm")
ATTEND_API Pt2Contents pt2_contents(const std::filesystem::path& path);

}  // namespace attend
