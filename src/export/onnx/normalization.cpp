#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"

#include <numeric>

namespace attend::onnx {
namespace {

/// Returns the indices of the last `count` dimensions of a tensor that has `rank` dimensions.
std::vector<int64_t> last(int64_t rank, std::size_t count) {
  std::vector<int64_t> dimensions(count);
  std::iota(dimensions.begin(), dimensions.end(), rank - static_cast<int64_t>(count));
  return dimensions;
}

/// Returns x / sqrt(mean(x^2) + eps).
Value normalize_rms(Call& call, Value x, const std::vector<int64_t>& dimensions, double eps) {
  auto& graph = call.graph();
  const auto square = reduce(call, "ReduceMean", graph.add("Mul", {x, x}), dimensions, true);
  const auto root = graph.add("Sqrt", {graph.add("Add", {square, graph.number(x.type, eps)})});
  return graph.add("Div", {x, root});
}

/// Returns (x - mean(x)) / sqrt(var(x) + eps).
Value normalize(Call& call, Value x, const std::vector<int64_t>& dimensions, double eps) {
  const auto mean = reduce(call, "ReduceMean", x, dimensions, true);
  return normalize_rms(call, call.graph().add("Sub", {x, mean}), dimensions, eps);
}

Value filled(Call& call, Type type, const std::vector<int64_t>& sizes, int64_t number) {
  const auto count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  return call.graph().constant(
      {type, sizes, std::vector<Number>(static_cast<std::size_t>(count), Number(number))});
}

void layer_norm(Call& call) {
  auto& graph = call.graph();
  const auto input = call.tensor("input");
  const auto shape = call.integers("normalized_shape");
  const auto weight =
      call.has("weight") ? call.operand("weight", input.type) : filled(call, input.type, shape, 1);
  std::vector<Value> inputs{input, weight};
  if (call.has("bias")) inputs.push_back(call.operand("bias", input.type));
  call.set_output(
      graph.add("LayerNormalization", inputs,
                {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", call.real("eps")}}));
}

/// Returns the default `eps` of LibTorch's rms_norm: the machine epsilon of the type.
double epsilon(Type type) {
  switch (type) {
    case Type::float64:
      return 0x1p-52;
    case Type::float16:
      return 0x1p-10;
    case Type::bfloat16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

void rms_norm(Call& call) {
  auto& graph = call.graph();
  const auto type = call.tensor("input").type;
  const auto input = call.operand("input", at_least_float32(type));
  const auto dimensions = last(call.rank("input"), call.integers("normalized_shape").size());
  const auto eps = call.has("eps") ? call.real("eps") : epsilon(type);
  if (graph.has("RMSNormalization")) {
    const auto shape = call.integers("normalized_shape");
    const auto weight = call.has("weight") ? call.operand("weight", input.type)
                                           : filled(call, input.type, shape, 1);
    return call.set_output(
        graph.add("RMSNormalization", {input, weight},
                  {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", eps}}));
  }
  auto result = normalize_rms(call, input, dimensions, eps);
  if (call.has("weight")) {
    result = graph.add("Mul", {result, call.operand("weight", input.type)});
  }
  call.set_output(result);
}

/// Returns x * weight + bias, per channel (dimension 1).
Value scale_channels(Call& call, Value x, int64_t rank) {
  auto& graph = call.graph();
  std::vector<int64_t> shape(static_cast<std::size_t>(rank) - 1, 1);
  shape.front() = -1;
  for (const auto* kind : {"weight", "bias"}) {
    if (!call.has(kind)) continue;
    const auto each = graph.add("Reshape", {call.operand(kind, x.type), graph.list(shape)});
    x = graph.add(std::string(kind) == "weight" ? "Mul" : "Add", {x, each});
  }
  return x;
}

/// Normalizes with the running mean and variance.
void with_running_stats(Call& call) {
  auto& graph = call.graph();
  const auto input = call.tensor("input");
  const std::vector<int64_t> channels{
      call.fixed(call.sizes("input").at(1), "the number of channels")};
  const auto argument_or = [&](const char* name, int64_t default_value) {
    return call.has(name) ? call.operand(name, input.type)
                          : filled(call, input.type, channels, default_value);
  };
  call.set_output(graph.add("BatchNormalization",
                            {input, argument_or("weight", 1), argument_or("bias", 0),
                             argument_or("running_mean", 0), argument_or("running_var", 1)},
                            {{"epsilon", call.real("eps")}}));
}

/// Normalizes with the mean and variance of the input.
void with_input_stats(Call& call, const std::vector<int64_t>& dimensions) {
  const auto input = call.operand("input", at_least_float32(call.tensor("input").type));
  const auto normal = normalize(call, input, dimensions, call.real("eps"));
  call.set_output(scale_channels(call, normal, call.rank("input")));
}

/// Returns all dimensions of the input except the batch and channel dimensions.
std::vector<int64_t> spatial_dimensions(Call& call) {
  const auto rank = call.rank("input");
  return last(rank, static_cast<std::size_t>(rank) - 2);
}

void batch_norm(Call& call) {
  if (!call.boolean("training")) return with_running_stats(call);
  if (call.has("running_mean")) call.fail("training mode with running statistics is not supported");
  auto dimensions = spatial_dimensions(call);
  dimensions.insert(dimensions.begin(), 0);
  with_input_stats(call, dimensions);
}

void instance_norm(Call& call) {
  if (!call.boolean("use_input_stats")) return with_running_stats(call);
  with_input_stats(call, spatial_dimensions(call));
}

void group_norm(Call& call) {
  const auto input = call.operand("input", at_least_float32(call.tensor("input").type));
  const auto& sizes = call.sizes("input");
  // (N, C, ...) -> (N, G, C/G, ...): Reshape cannot infer the size C/G * ... of an empty tensor
  const auto num_groups = call.integer("num_groups");
  Sizes grouped{sizes.at(0), {num_groups}, floor_div(sizes.at(1), num_groups)};
  grouped.insert(grouped.end(), sizes.begin() + 2, sizes.end());
  const auto dimensions = last(static_cast<int64_t>(grouped.size()), grouped.size() - 2);
  const auto normal =
      normalize(call, call.reshape(input, sizes, grouped), dimensions, call.real("eps"));
  call.set_output(scale_channels(call, call.reshape(normal, grouped, sizes), call.rank("input")));
}

}  // namespace

void add_normalization_rules(Rules& rules) {
  rules["layer_norm.default"] = layer_norm;
  rules["rms_norm.default"] = rms_norm;
  rules["batch_norm.default"] = batch_norm;
  rules["instance_norm.default"] = instance_norm;
  rules["group_norm.default"] = group_norm;
}

}  // namespace attend::onnx
