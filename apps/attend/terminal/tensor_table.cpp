#include "terminal/tensor_table.h"

#include "attend/io/utf8.h"
#include "terminal/number_text.h"
#include "terminal/table_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attend::app {
namespace {

const char* role_name(TensorRole role) {
  switch (role) {
    case TensorRole::parameter:
      return "parameter";
    case TensorRole::frozen:
      return "frozen";
    case TensorRole::buffer:
      return "buffer";
    case TensorRole::unknown:
      break;
  }
  return "unknown";
}

std::string shape_of(const TensorTree& node) {
  if (!node.tensor || !node.children.empty()) return fmt::format("{} tensors", node.totals.tensors);
  return fmt::format("({})", fmt::join(node.tensor->shape, ", "));
}

/// Returns the text that follows a tensor's name in the table: " = NAME" for an alias of the tensor
/// NAME, " [buffer]" for a buffer, " [frozen]" for a frozen parameter. Otherwise, returns an empty
/// string.
std::string suffix_of(const TensorTree& node) {
  if (!node.tensor) return {};
  if (!node.tensor->alias_of.empty()) return " = " + printable(node.tensor->alias_of);
  const auto role = node.tensor->role;
  if (role == TensorRole::buffer || role == TensorRole::frozen) {
    return fmt::format(" [{}]", role_name(role));
  }
  return {};
}

void add_rows(const TensorTree& tree, int64_t all, int64_t depth, std::size_t indent,
              std::vector<std::vector<std::string>>& rows) {
  if (depth == 0) return;
  for (const auto& node : tree.children) {
    const auto elements = static_cast<double>(node.totals.elements);
    const double share = all > 0 ? elements / static_cast<double>(all) * 100 : 0.0;
    rows.push_back({std::string(indent, ' ') + printable(node.name) + suffix_of(node),
                    shape_of(node), node.tensor ? node.tensor->dtype : "", count_text(elements),
                    bytes_text(static_cast<double>(node.totals.bytes)),
                    fmt::format("{:.1f}%", share)});
    add_rows(node, all, depth - 1, indent + 2, rows);
  }
}

}  // namespace

std::string tensor_table(const TensorTree& tree, int64_t depth) {
  std::vector<std::vector<std::string>> rows{
      {"tensor", "shape", "dtype", "elements", "bytes", "share"}};
  add_rows(tree, tree.totals.elements, depth, 0, rows);
  return table_text(rows, "<<<>");
}

nlohmann::ordered_json tensors_json(const std::vector<TensorInfo>& tensors) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& tensor : tensors) {
    nlohmann::ordered_json one{{"name", tensor.name},
                               {"shape", tensor.shape},
                               {"dtype", tensor.dtype},
                               {"elements", tensor.elements},
                               {"bytes", tensor.bytes}};
    if (tensor.role != TensorRole::unknown) one["role"] = role_name(tensor.role);
    if (!tensor.alias_of.empty()) one["alias_of"] = tensor.alias_of;
    all.push_back(std::move(one));
  }
  return all;
}

nlohmann::ordered_json totals_json(const TensorTotals& totals) {
  nlohmann::ordered_json json{
      {"tensors", totals.tensors}, {"elements", totals.elements}, {"bytes", totals.bytes}};
  const auto parameters = totals.trainable + totals.frozen;
  if (parameters + totals.buffers == 0 && totals.elements > 0)
    return json;  // all tensors have `TensorRole::unknown`
  json["parameters"] = parameters;
  json["trainable"] = totals.trainable;
  json["buffers"] = totals.buffers;
  return json;
}

}  // namespace attend::app
