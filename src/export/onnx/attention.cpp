#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace attend::onnx {
namespace {

const program::Size& size_from_end(Call& call, const char* name, std::size_t index) {
  const auto& sizes = call.sizes(name);
  return sizes.at(sizes.size() - index);
}

/// For grouped-query attention, repeats the G heads of the argument `name` (key or value), so that
/// the result has one head for each of the H query heads: (..., G, S, D) -> (..., H, S, D).
Value repeat_heads(Call& call, const char* name) {
  auto& graph = call.graph();
  const auto value = call.tensor(name);
  const auto rank = call.rank(name);
  if (!call.boolean("enable_gqa") || rank < 3) return value;
  const auto& queries = size_from_end(call, "query", 3);
  const auto& heads = size_from_end(call, name, 3);
  if (same(queries, heads)) return value;
  const auto times = graph.add("Div", {call.size(queries), call.size(heads)});
  const std::vector<int64_t> ones(static_cast<std::size_t>(rank) - 2, 1);
  const auto shape =
      graph.add("Concat", {graph.list(ones), times, graph.list({1, 1})}, {{"axis", 0}});
  const auto repeated = graph.add("Expand", {unsqueeze(call, value, {rank - 2}), shape});
  auto sizes = call.sizes(name);  // (..., G, S, D) -> (..., H, S, D)
  sizes.at(sizes.size() - 3) = queries;
  const Sizes before(sizes.begin(), sizes.end() - 3);
  return call.reshape(repeated, before, sizes);
}

/// Returns the factor by which the scores are multiplied. The factor is the argument `scale` or, if
/// `scale` is absent, 1 / sqrt(D), where D is the size of the query's last dimension. The factor
/// has the type of the query.
Value scale_of(Call& call) {
  auto& graph = call.graph();
  const auto type = call.tensor("query").type;
  if (call.has("scale")) return graph.number(type, call.real("scale"));
  const auto& width = size_from_end(call, "query", 1);
  if (is_fixed(width)) {
    return graph.number(type, 1.0 / std::sqrt(static_cast<double>(width.value)));
  }
  const auto root = graph.add("Sqrt", {graph.cast(call.size(width), at_least_float32(type))});
  return graph.cast(graph.add("Reciprocal", {root}), type);
}

/// Returns the causal mask as a bool tensor (T, S), for T queries and S keys. The diagonal of the
/// mask starts at the top left corner, as in LibTorch.
Value causal_mask(Call& call) {
  auto& graph = call.graph();
  const auto shape = call.shape({size_from_end(call, "query", 2), size_from_end(call, "key", 2)});
  const auto ones = graph.add("Expand", {graph.number(Type::float32, 1), shape});
  const auto zero = graph.number(Type::int64, 0);
  return graph.cast(graph.add("Trilu", {ones, zero}, {{"upper", 0}}), Type::boolean);
}

/// Returns true if the operator Attention computes the same as LibTorch. It has no batches that
/// are broadcast, its causal mask may be aligned differently if T != S, and runtimes may treat the
/// lowest numbers in a float mask as -infinity. onnxruntime refuses empty batches and sequences.
bool has_attention_node(Call& call) {
  const auto type = call.tensor("query").type;
  if (!call.graph().has("Attention") || type == Type::float64) return false;
  for (const auto* name : {"query", "key", "value"}) {
    if (call.rank(name) != 4) return false;
    if (!same(call.sizes(name).at(0), call.sizes("query").at(0))) return false;
    if (call.smallest(call.sizes(name).at(0)) < 1 || call.smallest(call.sizes(name).at(2)) < 1)
      return false;
    const bool has_all_heads = same(call.sizes(name).at(1), call.sizes("query").at(1));
    if (!has_all_heads && !call.boolean("enable_gqa")) return false;
  }
  if (!same(call.sizes("key").at(1), call.sizes("value").at(1))) return false;
  const auto& keys = size_from_end(call, "key", 2);
  if (call.boolean("is_causal")) return same(size_from_end(call, "query", 2), keys);
  return !call.has("attn_mask") || (call.tensor("attn_mask").type == Type::boolean &&
                                    (call.rank("attn_mask") == 2 || call.rank("attn_mask") == 4));
}

/// Adds an Attention node. `mask`: bool, or absent.
Value attention_node(Call& call, Value mask) {
  auto& graph = call.graph();
  std::vector<Value> inputs{call.tensor("query"), call.tensor("key"), call.tensor("value")};
  Attributes attributes{{"is_causal", int64_t{call.boolean("is_causal")}},
                        {"softmax_precision", static_cast<int64_t>(Type::float32)}};
  if (call.has("scale")) attributes["scale"] = call.real("scale");
  if (mask.id != 0) {
    const auto shape = call.shape({size_from_end(call, "query", 2), size_from_end(call, "key", 2)});
    inputs.push_back(graph.add("Expand", {mask, shape}));  // (..., T, S)
  }
  return graph.add("Attention", inputs, attributes);
}

/// Computes attention without an Attention node. `mask`: bool or floating point, or absent.
Value decomposed(Call& call, Value mask) {
  auto& graph = call.graph();
  const auto query = call.tensor("query");
  const auto key = repeat_heads(call, "key");
  const auto rank = call.rank("key");
  const auto scaled = graph.add("Mul", {query, scale_of(call)});
  const auto products = graph.add("MatMul", {scaled, swap(call, key, rank, rank - 2, rank - 1)});
  // As in LibTorch, masks are added and weights are computed in float32: the sum of the lowest
  // float16 and a score is -infinity in float16.
  auto scores = graph.cast(products, at_least_float32(query.type));
  if (call.boolean("is_causal")) mask = causal_mask(call);
  if (mask.id != 0 && mask.type == Type::boolean) {
    scores = graph.where(mask, scores, graph.number(scores.type, -INFINITY));
  } else if (mask.id != 0) {
    scores = graph.add("Add", {scores, graph.cast(mask, scores.type)});
  }
  const auto weights = graph.cast(graph.add("Softmax", {scores}, {{"axis", -1}}), query.type);
  return graph.add("MatMul", {weights, repeat_heads(call, "value")});
}

void attention(Call& call) {
  auto& graph = call.graph();
  if (call.has("dropout_p") && call.real("dropout_p") > 0.0) {
    call.fail("dropout_p must be 0, found " + fmt::format("{}", call.real("dropout_p")));
  }
  Value mask;
  if (call.has("attn_mask")) mask = call.tensor("attn_mask");
  Value has_keys;  // bool (..., T, 1), false for queries whose keys are all masked
  if (mask.id != 0 && mask.type == Type::boolean) {
    has_keys = graph.cast(reduce(call, "ReduceMax", graph.cast(mask, Type::int32),
                                 {call.rank("attn_mask") - 1}, true),
                          Type::boolean);
  } else if (mask.id != 0) {
    const auto best = reduce(call, "ReduceMax", mask, {call.rank("attn_mask") - 1}, true);
    has_keys = graph.compare("Greater", best, graph.number(mask.type, -INFINITY));
  }
  auto result = has_attention_node(call) ? attention_node(call, mask) : decomposed(call, mask);
  // For a query whose keys are all masked, the result is undefined or NaN. LibTorch's
  // scaled_dot_product_attention returns zeros.
  if (has_keys.id != 0) result = graph.where(has_keys, result, graph.number(result.type, 0));
  call.set_output(result);
}

}  // namespace

void add_attention_rules(Rules& rules) {
  rules["scaled_dot_product_attention.default"] = attention;
}

}  // namespace attend::onnx
