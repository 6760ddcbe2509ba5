#pragma once

#include "attend/api.h"
#include "attend/io/tensor_info.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace attend {

/// Contents of an ONNX file.
struct OnnxContents {
  std::vector<TensorInfo> tensors;  ///< initializers
  /// Name, dtype and shape of each input, such as "tokens: int64 (batch, length)". A dimension
  /// without name and size is "?".
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;  ///< in the same form as `inputs`
  /// Number of nodes of each operator. The keys are names of operators, such as "MatMul".
  std::map<std::string, int64_t> operators;
  std::map<std::string, std::string> metadata;  ///< `metadata_props`
  std::set<std::string> external_data;          ///< names of the files that contain tensors
  int64_t opset = 0;                            ///< version of ONNX's own operators; 0 if unknown
};

/// Returns the contents of an ONNX file written by any exporter. Does not run the program. Throws
/// InputError if the file is not ONNX or is damaged, or if a tensor in a second file (external
/// data) is not within this file, or this file not in the folder of `path`. The message names the
/// file.
///
///     onnx_contents("model.onnx").operators.at("MatMul")
ATTEND_API OnnxContents onnx_contents(const std::filesystem::path& path);

}  // namespace attend
