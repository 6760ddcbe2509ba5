#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// What a test asks of an ONNX file. Whether it runs is for onnxruntime to say.
struct OnnxFile {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> initializers;
  std::vector<std::string> operators;  ///< of its nodes, in order
  std::map<std::string, std::string> metadata;
  int64_t opset = 0;
};

OnnxFile read_onnx(const std::filesystem::path& path);

}  // namespace attend
