#pragma once

#include "export/onnx/graph.h"

#include <map>
#include <set>
#include <string>

namespace attend::onnx {

/// What tensors the nodes of a kind compute with, where that is not all types: those that opset 18
/// allows, without those that onnxruntime does not have on a CPU.
const std::map<std::string, std::set<Type>>& types_of_nodes();

/// The type itself, or the narrowest of those that stand for it which the nodes of a kind take.
/// Throws Refusal if there is none.
Type fitting(const std::string& kind, Type type);

/// As ONNX calls it.
std::string name_of(Type type);

}  // namespace attend::onnx
