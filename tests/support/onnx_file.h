#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// The contents of an ONNX file that C++ tests check. Python tests run the files in onnxruntime.
struct OnnxFile {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> initializers;
  std::vector<std::string> operators;  ///< operator types of the nodes, in order
  std::map<std::string, std::string> metadata;
  int64_t opset = 0;                 ///< version of the operators of ONNX
  std::vector<std::string> domains;  ///< other domains of operators
};

/// Reads an ONNX file.
OnnxFile read_onnx(const std::filesystem::path& path);

}  // namespace attend
