#include "export/onnx/indexing.h"
#include "export/onnx/rules.h"

#include <algorithm>
#include <functional>

namespace attend::onnx {
namespace {

using Values = std::vector<Value>;
/// Combines the results of two adjacent ranges. The first argument is the result of the range with
/// the smaller indices.
using Combine = std::function<Values(const Values& before, const Values& after)>;

/// Returns the cumulative combinations along the dimension `dimension` of `self`: element i is the
/// combination of the elements 0 to i. ONNX has only a cumulative sum. In each step, an element is
/// combined with the element at a distance of 1, 2, 4, ..., so that ceil(log2(n)) steps suffice for
/// n elements. Elements without such a predecessor do not change.
Values scan(Call& call, Values values, int64_t dimension, const Combine& combine) {
  auto& graph = call.graph();
  const auto& size = call.sizes("self").at(static_cast<std::size_t>(dimension));
  const auto zero = graph.number(Type::int64, 0);
  const auto positions = call.range(size);
  // A dimension without a bound is assumed to have at most 2^32 elements.
  const auto largest = std::min(call.largest(size), int64_t{1} << 32);
  for (int64_t distance = 1; distance < largest; distance *= 2) {
    const auto earlier = graph.add("Sub", {positions, graph.number(Type::int64, distance)});
    const auto exists =
        along(call, graph.compare("GreaterOrEqual", earlier, zero), dimension, call.rank("self"));
    const auto index = graph.add("Max", {earlier, zero});
    Values before;
    for (const auto& value : values) {
      before.push_back(graph.add("Gather", {value, index}, {{"axis", dimension}}));
    }
    const auto combined = combine(before, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = graph.where(exists, combined[i], values[i]);
    }
  }
  return values;
}

void cumulative_product(Call& call) {
  auto& graph = call.graph();
  const auto value = call.operand("self", call.result_type());
  if (call.rank("self") == 0) return call.set_output(value);
  const auto product = [&](const Values& before, const Values& after) {
    return Values{graph.add("Mul", {before[0], after[0]})};
  };
  call.set_output(scan(call, {value}, call.dimension("dim"), product).front());
}

/// Returns the translation rule of cummax and cummin. `kind` is GreaterOrEqual or LessOrEqual. Of
/// equal elements, the index of the last one is returned, and NaN is larger and smaller than all
/// other elements, as in LibTorch.
Rule cumulative_extreme(const char* kind) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto self = call.tensor("self");
    if (call.rank("self") == 0) {
      call.set_output(self);
      return call.set_output(graph.number(Type::int64, 0), 1);
    }
    const auto dimension = call.dimension("dim");
    const auto& size = call.sizes("self").at(static_cast<std::size_t>(dimension));
    const auto positions = along(call, call.range(size), dimension, call.rank("self"));
    const auto index = graph.add("Expand", {positions, graph.shape_of(self)});
    const auto extreme = [&](const Values& before, const Values& after) {
      auto is_after = graph.compare(kind, after[0], before[0]);
      if (is_floating_point(self.type)) {
        const auto is_nan = [&](Value x) { return graph.add("IsNaN", {x}, {}, Type::boolean); };
        is_after = graph.add("And", {is_after, graph.add("Not", {is_nan(before[0])})});
        is_after = graph.add("Or", {is_after, is_nan(after[0])});
      }
      return Values{graph.where(is_after, after[0], before[0]),
                    graph.where(is_after, after[1], before[1])};
    };
    const auto found = scan(call, {self, index}, dimension, extreme);
    call.set_output(found[0]);
    call.set_output(found[1], 1);
  };
}

}  // namespace

void add_scan_rules(Rules& rules) {
  rules["cumprod.default"] = cumulative_product;
  rules["cummax.default"] = cumulative_extreme("GreaterOrEqual");
  rules["cummin.default"] = cumulative_extreme("LessOrEqual");
}

}  // namespace attend::onnx
