#pragma once

#include "export/onnx/call.h"
#include "program/exported_program.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace attend::onnx {

/// An input, output or initializer of the model.
struct ValueInfo {
  std::string name;
  Value value;
  program::TensorMeta meta;
};

/// An ONNX model without the data of its initializers.
struct Model {
  Graph graph;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> weights;  ///< initializers that the graph uses, named as in the state dict
  std::vector<ValueInfo> outputs;
};

/// Error for a program with unsupported operators. `reasons` contains all operators without a
/// translation rule or, if all operators have rules, the first call that cannot be translated.
class UnsupportedOperatorsError : public std::runtime_error {
 public:
  struct Reason {
    std::size_t node;  ///< index in ExportedProgram::nodes
    std::string text;
  };
  explicit UnsupportedOperatorsError(std::vector<Reason> all, std::string what_to_do = {})
      : std::runtime_error(all.front().text),
        reasons(std::move(all)),
        remedy(std::move(what_to_do)) {}

  std::vector<Reason> reasons;
  std::string remedy;  ///< what the user can do; may be empty
};

/// Translates a program to an opset of ONNX. If several weights have the same data, `tied_weights`
/// maps each of them, except the first, to the first. Weights are identified by `Input::target`.
/// Throws UnsupportedOperatorsError if an operator is not supported, and std::runtime_error if an
/// input, weight or output is not supported, for example because of its dtype.
Model translate(const program::ExportedProgram& program,
                const std::map<std::string, std::string>& tied_weights,
                const std::vector<std::string>& output_names, int64_t opset);

}  // namespace attend::onnx
