#pragma once

#include "export/onnx/graph.h"

#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace attend::onnx {

/// What tensors the nodes of a kind compute with, where that is not all types: those that opset 18
/// allows, without those that onnxruntime does not have on a CPU.
const std::map<std::string, std::set<Type>>& types_of_nodes();

/// The type itself, or the narrowest of those that stand for it which the nodes of a kind take.
/// Throws UnfitType if there is none.
Type fitting(const std::string& kind, Type type);

class UnfitType : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// As ONNX calls it.
std::string name_of(Type type);

}  // namespace attend::onnx
