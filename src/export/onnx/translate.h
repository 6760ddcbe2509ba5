#pragma once

#include "export/onnx/call.h"
#include "export/program/program.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace attend::onnx {

/// A value that has a name in the file.
struct ValueInfo {
  std::string name;
  Value value;
  program::TensorMeta meta;
};

/// What a file holds but for the bytes of the weights.
struct Model {
  Graph graph;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> weights;  ///< those that are used, by their names in the state dict
  std::vector<ValueInfo> outputs;
};

/// Why a program cannot be translated, and which of its nodes are the reason.
class Untranslatable : public std::runtime_error {
 public:
  struct Reason {
    std::size_t node;  ///< its place in the program, which is that of its call in a trace
    std::string text;
  };
  explicit Untranslatable(std::vector<Reason> all)
      : std::runtime_error(all.front().text), reasons(std::move(all)) {}

  std::vector<Reason> reasons;
};

/// The nodes of ONNX for those of a program. `same_weights`: of weights that are the same tensor,
/// the target of the first, by the targets of the others. Throws Untranslatable, and
/// std::runtime_error for an input, a weight or an output that ONNX lacks.
Model translate(const program::Program& program,
                const std::map<std::string, std::string>& same_weights,
                const std::vector<std::string>& output_names);

}  // namespace attend::onnx
