#pragma once

#include "attend/api.h"
#include "export/onnx/graph.h"

#include <map>
#include <set>
#include <string>

namespace attend::onnx {

/// Supported types by operator. Operators that are not in the map support all types. A type is
/// supported if opset 18 allows it and onnxruntime implements it on the CPU.
ATTEND_API const std::map<std::string, std::set<Type>>& types_of_nodes();

/// Returns `type` if the operator supports it, else the narrowest fallback type. Throws
/// UnsupportedOperatorError if there is none.
ATTEND_API Type compute_type_of(const std::string& op_type, Type type);

/// Returns ONNX's name of a type.
ATTEND_API std::string name_of(Type type);

}  // namespace attend::onnx
