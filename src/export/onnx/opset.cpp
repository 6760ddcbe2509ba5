#include "export/onnx/opset.h"

#include "export/onnx/unsupported_operator_error.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace attend::onnx {
namespace {

/// First opset of the operators that opset 17 does not have.
const std::map<std::string, int64_t>& first_opsets() {
  static const std::map<std::string, int64_t> all{
      {"Attention", 23},  {"BitwiseAnd", 18}, {"BitwiseNot", 18}, {"BitwiseOr", 18},
      {"BitwiseXor", 18}, {"Col2Im", 18},     {"Gelu", 20},       {"RMSNormalization", 23}};
  return all;
}

[[noreturn]] void throw_too_old(const std::string& what, int64_t first, int64_t opset) {
  throw UnsupportedOperatorError(
      fmt::format("{} requires opset {} or newer, found opset {}", what, first, opset));
}

std::string text_of(const Node& node, const std::string& attribute) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? "" : std::get<std::string>(found->second);
}

}  // namespace

int64_t ir_version_of(int64_t opset) {
  static const std::map<int64_t, int64_t> versions{{17, 8},  {18, 8},  {19, 9}, {20, 9},
                                                   {21, 10}, {22, 10}, {23, 11}};
  return versions.at(opset);
}

bool has_operator(const std::string& op_type, int64_t opset) {
  const auto first = first_opsets().find(op_type);
  return first == first_opsets().end() || first->second <= opset;
}

void adapt(Node& node, int64_t opset,
           const std::function<std::vector<int64_t>(const Value&)>& numbers_of) {
  // Since opset 18, the axes are an input. ReduceSum has this input since opset 13.
  static const std::set<std::string> reductions{"ReduceL2",   "ReduceLogSumExp", "ReduceMax",
                                                "ReduceMean", "ReduceMin",       "ReduceProd"};
  const auto& op_type = node.op_type;
  if (!has_operator(op_type, opset)) {
    throw_too_old(fmt::format("the ONNX operator {}", op_type), first_opsets().at(op_type), opset);
  }
  if (opset < 18) {
    if (reductions.count(op_type) > 0 && node.inputs.size() > 1) {
      node.attributes["axes"] = numbers_of(node.inputs[1]);
      node.inputs.resize(1);
    } else if (op_type == "Split") {
      node.attributes.erase("num_outputs");  // the number of outputs is that of the node
    } else if (op_type == "Resize") {
      const auto antialias = node.attributes.find("antialias");
      if (antialias != node.attributes.end()) {
        if (std::get<int64_t>(antialias->second) != 0)
          throw_too_old("antialiased resizing", 18, opset);
        node.attributes.erase(antialias);
      }
    } else if (op_type == "ScatterElements" || op_type == "ScatterND") {
      const auto reduction = text_of(node, "reduction");
      if (reduction == "max" || reduction == "min") {
        throw_too_old(fmt::format("the reduction {} of {}", reduction, op_type), 18, opset);
      }
    }
  }
  if (op_type == "GridSample" && opset >= 20) {  // renamed the modes
    const auto mode = text_of(node, "mode");
    if (mode == "bilinear") node.attributes["mode"] = "linear";
    if (mode == "bicubic") node.attributes["mode"] = "cubic";
  }
}

}  // namespace attend::onnx
