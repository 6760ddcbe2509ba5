#include "export/bool_scalars.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/jit/ir/constants.h>

#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace attend {
namespace {

namespace jit = torch::jit;

/// Returns true for operators that cast their Scalar argument to the output's dtype, so that an int
/// has the same effect as a bool. In other operators, such as aten::add, the type of the Scalar
/// affects type promotion.
bool only_fills(const jit::Node& node) {
  static const std::set<std::string_view> names{
      "aten::constant_pad_nd", "aten::fill",       "aten::fill_",       "aten::full",
      "aten::full_like",       "aten::index_fill", "aten::index_fill_", "aten::masked_fill",
      "aten::masked_fill_",    "aten::new_full",   "aten::scatter",     "aten::scatter_"};
  return names.count(node.kind().toQualString()) > 0;
}

std::optional<bool> flag_of(const jit::Value* value) {
  const auto constant = jit::toIValue(value);
  if (!constant || !constant->isBool()) return std::nullopt;
  return constant->toBool();
}

/// Replaces the bool inputs of `node` at `positions` by ints if `as_number` is set, else by
/// 0-dimensional tensors. Returns false and leaves the node unchanged if no operator overload
/// accepts the new inputs.
bool try_replace(jit::Graph& graph, jit::Node& node, const std::vector<std::size_t>& positions,
                 bool as_number) {
  const jit::WithInsertPoint before(&node);
  std::vector<jit::Value*> originals;
  for (const auto i : positions) {
    originals.push_back(node.input(i));
    const auto flag = *flag_of(node.input(i));
    node.replaceInput(i, as_number ? graph.insertConstant(static_cast<int64_t>(flag))
                                   : graph.insertConstant(c10::scalar_to_tensor(flag)));
  }
  if (node.maybeOperator() != nullptr) return true;
  for (std::size_t i = 0; i < positions.size(); ++i) node.replaceInput(positions[i], originals[i]);
  return false;
}

void replace_bool_scalars(jit::Graph& graph, jit::Node& node) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (flag_of(node.input(i))) all.push_back(i);
  }
  // Some of the bool inputs may be arguments for bool parameters, such as keepdim. These inputs
  // must stay bools. So the loop below first tries to replace each bool input alone, then all bool
  // inputs together.
  std::vector<std::vector<std::size_t>> choices;
  for (const auto i : all) choices.push_back({i});
  choices.push_back(all);
  const bool number_first = only_fills(node);
  for (const bool as_number : {number_first, !number_first}) {
    for (const auto& positions : choices) {
      if (try_replace(graph, node, positions, as_number)) return;
    }
  }
}

/// Sets the dtype argument of aten::full to bool if the fill value is a bool and the dtype is None.
/// `replace_bool_scalars` then replaces the bool value by an int. Without an explicit dtype, the
/// int would change the output's dtype.
void keep_type_of_full(jit::Graph& graph, jit::Node& node) {
  constexpr std::size_t kValue = 1;
  constexpr std::size_t kDtype = 2;
  if (node.kind() != c10::aten::full || !flag_of(node.input(kValue))) return;
  if (!node.input(kDtype)->mustBeNone()) return;
  const jit::WithInsertPoint before(&node);
  node.replaceInput(kDtype, graph.insertConstant(static_cast<int64_t>(at::kBool)));
}

}  // namespace

void replace_bool_scalars(jit::Graph& graph) {
  for (auto* node : graph.nodes()) {
    if (!node->kind().is_aten() || node->maybeOperator() != nullptr) continue;
    keep_type_of_full(graph, *node);
    replace_bool_scalars(graph, *node);
  }
}

}  // namespace attend
