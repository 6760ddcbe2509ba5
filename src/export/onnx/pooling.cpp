#include "export/onnx/min_max.h"
#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"
#include "export/onnx/slices.h"
#include "export/onnx/windows.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>
#include <string>

namespace attend::onnx {
namespace {

/// Returns `value` or, if `value` is the output of a Pad node, the output of a new node that does
/// not change the numbers. Without the new node, onnxruntime would merge the Pad node into the
/// pooling node that reads `value`: MaxPool would then ignore the padded zeros, and AveragePool
/// would be invalid for large padding.
Value separate_from_padding(Graph& graph, Value value) {
  const auto& nodes = graph.nodes();
  const auto node = std::find_if(nodes.rbegin(), nodes.rend(), [&](const Node& any) {
    return any.outputs.front().id == value.id;
  });
  if (node == nodes.rend() || node->op_type != "Pad") return value;
  const auto lowest = graph.number(value.type, -std::numeric_limits<double>::infinity());
  return graph.add("Max", {value, lowest});  // changes no number
}

/// Adds a pooling node with `count` spatial dimensions. The input may be batched or unbatched.
Value over_windows(Call& call, const char* kind, std::size_t count, const Attributes& attributes) {
  const auto x = separate_from_padding(call.graph(), call.tensor("self"));
  return in_batch(call, x, call.rank("self"), count,
                  [&](Value input) { return call.graph().add(kind, {input}, attributes); });
}

Attributes windows(Call& call, std::size_t count) {
  const auto kernel = for_each_dimension(call, "kernel_size", count, {});
  auto pads = for_each_dimension(call, "padding", count, {0});
  const auto ends = pads;
  pads.insert(pads.end(), ends.begin(), ends.end());
  return {{"kernel_shape", kernel},
          {"strides", for_each_dimension(call, "stride", count, kernel)},
          {"pads", pads},
          {"ceil_mode", int64_t{call.boolean("ceil_mode")}}};
}

Rule max_pool(std::size_t count) {
  return [=](Call& call) {
    auto attributes = windows(call, count);
    attributes["dilations"] = for_each_dimension(call, "dilation", count, {1});
    auto value = over_windows(call, "MaxPool", count, attributes);
    // With ceil_mode, ONNX includes windows that start in the padding after the last element.
    // LibTorch omits these windows.
    for (std::size_t i = 0; call.boolean("ceil_mode") && i < count; ++i) {
      const auto dimension = call.result_rank() - static_cast<int64_t>(count - i);
      const auto& size = call.result_sizes().at(static_cast<std::size_t>(dimension));
      value = slice(call, value, dimension, call.graph().list({0}), call.size(size));
    }
    call.set_output(value);
  };
}

/// Returns the input of an average pooling or, if `counts` is set, ones of its shape without batch
/// and channels. In each spatial dimension, the elements before and after are `padding` times
/// `border`, then zeros for the windows of ceil_mode.
Value padded(Call& call, std::size_t count, bool counts, double border) {
  auto& graph = call.graph();
  const auto x = call.tensor("self");
  const auto rank = counts ? static_cast<int64_t>(count) : call.rank("self");
  const auto pad = for_each_dimension(call, "padding", count, {0});
  const auto kernel = for_each_dimension(call, "kernel_size", count, {});
  const auto& sizes = call.sizes("self");
  auto value = x;
  if (counts) {
    const Sizes spatial(sizes.end() - static_cast<std::ptrdiff_t>(count), sizes.end());
    value = graph.add("Expand", {graph.number(x.type, 1), call.shape(spatial)});
  }
  const auto surround = [&](const Numbers& before, const Numbers& after, double number) {
    std::vector<int64_t> pads(2 * static_cast<std::size_t>(rank), 0);
    std::copy_backward(before.begin(), before.end(), pads.begin() + rank);
    std::copy_backward(after.begin(), after.end(), pads.end());
    value = graph.add("Pad", {value, graph.list(pads), graph.number(x.type, number)});
  };
  surround(pad, pad, border);
  surround(Numbers(count, 0), kernel, 0);
  return separate_from_padding(graph, value);
}

/// Returns the sums of the windows, divided by the numbers of their elements or by
/// divisor_override. Windows of ceil_mode have fewer elements at the end: those up to the padding.
Value average_pool_by_sums(Call& call, std::size_t count) {
  auto& graph = call.graph();
  const auto rank = call.rank("self");
  const auto kernel = for_each_dimension(call, "kernel_size", count, {});
  const Attributes attributes{{"kernel_shape", kernel},
                              {"strides", for_each_dimension(call, "stride", count, kernel)}};
  auto sums = in_batch(call, padded(call, count, /*counts=*/false, 0), rank, count,
                       [&](Value input) { return graph.add("AveragePool", {input}, attributes); });
  // Without ceil_mode, the padding for it may contain further windows.
  const auto to_result = [&](Value value, int64_t value_rank) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto& size = call.result_sizes().at(call.result_sizes().size() - count + i);
      const auto dimension = value_rank - static_cast<int64_t>(count - i);
      value = slice(call, value, dimension, graph.list({0}), call.size(size));
    }
    return value;
  };
  sums = to_result(sums, rank);
  if (call.has("divisor_override")) {
    const auto elements = static_cast<double>(c10::multiply_integers(kernel));
    const auto factor = elements / static_cast<double>(call.integer("divisor_override"));
    return graph.add("Mul", {sums, graph.number(sums.type, factor)});
  }
  const auto border = call.boolean("count_include_pad") ? 1.0 : 0.0;
  auto counts = unsqueeze(call, padded(call, count, /*counts=*/true, border), {0, 1});
  counts = squeeze(call, graph.add("AveragePool", {counts}, attributes), {0, 1});
  return graph.add("Div", {sums, to_result(counts, static_cast<int64_t>(count))});
}

Rule average_pool(std::size_t count) {
  return [=](Call& call) {
    auto attributes = windows(call, count);
    const auto pads = for_each_dimension(call, "padding", count, {0});
    // With ceil_mode, LibTorch and ONNX divide the sums of the last windows by different numbers.
    const bool divides_as_onnx = !call.boolean("ceil_mode") || pads == Numbers(count, 0);
    if (call.has("divisor_override") || !divides_as_onnx) {
      return call.set_output(average_pool_by_sums(call, count));
    }
    attributes["count_include_pad"] = int64_t{call.boolean("count_include_pad")};
    call.set_output(over_windows(call, "AveragePool", count, attributes));
  };
}

enum class Pool { mean, max };

Value pool_to_one(Call& call, Pool pool, Value value, int64_t dimension) {
  if (pool == Pool::mean) return reduce(call, "ReduceMean", value, {dimension}, true);
  return reduce_min_max(call, "ReduceMax", value, {dimension}, true);
}

/// Pools `dimension`, which has the size `size`, to `windows` elements. Each element is the mean or
/// the maximum of a slice. The slices may overlap.
Value pool_dimension(Call& call, Pool pool, Value value, int64_t dimension, int64_t size,
                     int64_t windows) {
  std::vector<Value> parts;
  for (int64_t i = 0; i < windows; ++i) {
    const auto start = i * size / windows;
    const auto end = ((i + 1) * size + windows - 1) / windows;
    parts.push_back(pool_to_one(call, pool, slice(call, value, dimension, start, end), dimension));
  }
  return call.graph().add("Concat", parts, {{"axis", dimension}});
}

/// As `pool_dimension`, for sizes that are known only at run time.
Value pool_dynamic_dimension(Call& call, Pool pool, Value value, int64_t dimension,
                             const program::Size& size, const program::Size& windows) {
  auto& graph = call.graph();
  const auto rank = call.rank("self");
  const auto all = call.size(size);
  const auto count = call.size(windows);
  const auto one = graph.list({1});
  // Window i consists of the indices floor(i * all / count) to ceil((i + 1) * all / count) - 1.
  const auto window = call.range(windows);  // (windows)
  const auto start = graph.add("Div", {graph.add("Mul", {window, all}), count});
  const auto next = graph.add("Mul", {graph.add("Add", {window, one}), all});
  const auto end =
      graph.add("Div", {graph.add("Add", {next, graph.add("Sub", {count, one})}), count});
  const auto index = call.range(size);  // (size)
  const auto is_inside = graph.add(
      "And", {graph.compare("GreaterOrEqual", index, unsqueeze(call, start, {1})),
              graph.compare("Less", index, unsqueeze(call, end, {1}))});  // (windows, size)
  const auto outside = pool == Pool::mean ? 0.0 : -std::numeric_limits<double>::infinity();
  value = unsqueeze(call, swap(call, value, rank, dimension, rank - 1), {rank - 1});
  value = graph.where(is_inside, value, graph.number(value.type, outside));
  if (pool == Pool::max) {
    value = reduce_min_max(call, "ReduceMax", value, {rank}, false);
  } else {
    const auto length = graph.cast(graph.add("Sub", {end, start}), value.type);
    value = graph.add("Div", {reduce(call, "ReduceSum", value, {rank}, false), length});
  }
  return swap(call, value, rank, dimension, rank - 1);
}

/// Returns the translation rule of adaptive pooling with `count` spatial dimensions.
Rule adaptive(Pool pool, std::size_t count) {
  return [=](Call& call) {
    const auto rank = call.rank("self");
    auto value = call.tensor("self");
    for (std::size_t i = 0; i < count; ++i) {
      const auto dimension = rank - static_cast<int64_t>(count - i);
      const auto& size = call.sizes("self").at(static_cast<std::size_t>(dimension));
      const auto& windows = call.result_sizes().at(static_cast<std::size_t>(dimension));
      if (is_fixed(windows) && windows.value == 1) {
        value = pool_to_one(call, pool, value, dimension);
      } else if (!is_fixed(size) || !is_fixed(windows)) {
        value = pool_dynamic_dimension(call, pool, value, dimension, size, windows);
      } else if (windows.value != size.value) {
        value = pool_dimension(call, pool, value, dimension, size.value, windows.value);
      }
    }
    call.set_output(value);
  };
}

}  // namespace

void add_pooling_rules(Rules& rules) {
  for (const std::size_t count : {1U, 2U, 3U}) {
    const auto kind = std::to_string(count) + "d.default";
    rules["max_pool" + kind] = max_pool(count);
    rules["avg_pool" + kind] = average_pool(count);
    rules["adaptive_avg_pool" + kind] = adaptive(Pool::mean, count);
    rules["adaptive_max_pool" + kind] = adaptive(Pool::max, count);
  }
}

}  // namespace attend::onnx
