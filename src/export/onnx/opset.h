#pragma once

#include "export/onnx/graph.h"

#include <cstdint>
#include <functional>
#include <string>

/// Differences between the opsets that the exporter can write. Translation rules add nodes in one
/// form, that of opset 18 or, for newer operators, of the first opset that has them. `adapt`
/// rewrites these nodes for other opsets. A rule that has two translations, with and without a
/// newer operator, chooses by `Graph::has`.
namespace attend::onnx {

inline constexpr int64_t kMinOpset = 17;
inline constexpr int64_t kMaxOpset = 23;

/// Returns the version of the file format that the first release of ONNX with this opset wrote.
int64_t ir_version_of(int64_t opset);

/// Returns true if the opset has the operator, which must be one that the rules use.
bool has_operator(const std::string& op_type, int64_t opset);

/// Rewrites a node for the opset. `numbers_of` returns the integers of a constant. Throws
/// UnsupportedOperatorError if the opset cannot express the node.
void adapt(Node& node, int64_t opset,
           const std::function<std::vector<int64_t>(const Value&)>& numbers_of);

}  // namespace attend::onnx
