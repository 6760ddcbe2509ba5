#pragma once

#include "attend/api.h"
#include "export/onnx/graph.h"

#include <map>
#include <set>
#include <string>

namespace attend::onnx {

/// Returns the supported input types of each ONNX operator, by operator name. Operators that are
/// not in the map support all types. A type is supported if opset 18, or the first opset with the
/// operator, allows it and onnxruntime implements the operator for this type on the CPU.
ATTEND_API const std::map<std::string, std::set<Type>>& types_of_nodes();

/// Returns `type` if the ONNX operator supports it. Otherwise returns the supported type to which
/// inputs are cast: float32 for floating point types, and int32 or else int64 for all other types.
/// Throws UnsupportedOperatorError if the operator does not support such a type either.
ATTEND_API Type compute_type_of(const std::string& op_type, Type type);

/// Returns the name of a type in ONNX, such as "float" for float32.
ATTEND_API std::string name_of(Type type);

}  // namespace attend::onnx
