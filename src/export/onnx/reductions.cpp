#include "export/onnx/reductions.h"

#include "export/onnx/min_max.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <algorithm>
#include <cmath>

namespace attend::onnx {

Value reduce(Call& call, const char* kind, Value value, const std::vector<int64_t>& dimensions,
             bool keep) {
  if (dimensions.empty()) return value;
  auto& graph = call.graph();
  return graph.add(kind, {value, graph.list(dimensions)}, {{"keepdims", int64_t{keep}}});
}

Value count(Call& call, const Sizes& sizes, const std::vector<int64_t>& dimensions, Type type) {
  auto& graph = call.graph();
  int64_t fixed = 1;
  Value product;
  for (const auto dimension : dimensions) {
    const auto& size = sizes.at(static_cast<std::size_t>(dimension));
    if (is_fixed(size)) {
      fixed *= size.value;
      continue;
    }
    const auto scalar = graph.add("Squeeze", {call.size(size), graph.list({0})});
    product = product.id == 0 ? scalar : graph.add("Mul", {product, scalar});
  }
  if (product.id == 0) return graph.number(type, fixed);
  if (fixed != 1) product = graph.add("Mul", {product, graph.number(Type::int64, fixed)});
  return graph.cast(product, type);
}

Value norm_of(Call& call, Value value, double p, const std::vector<int64_t>& dimensions,
              bool keep) {
  auto& graph = call.graph();
  if (p == 2.0) {
    return dimensions.empty() ? graph.add("Abs", {value})
                              : reduce(call, "ReduceL2", value, dimensions, keep);
  }
  const auto size = graph.add("Abs", {value});
  if (p == 1.0) return reduce(call, "ReduceSum", size, dimensions, keep);
  if (std::isinf(p)) {
    return reduce_min_max(call, p > 0 ? "ReduceMax" : "ReduceMin", size, dimensions, keep);
  }
  if (p == 0.0) {
    const auto some = graph.cast(graph.cast(value, Type::boolean), value.type);
    return reduce(call, "ReduceSum", some, dimensions, keep);
  }
  const auto powers = graph.add("Pow", {size, graph.number(value.type, p)});
  const auto sum = reduce(call, "ReduceSum", powers, dimensions, keep);
  return graph.add("Pow", {sum, graph.number(value.type, 1.0 / p)});
}

std::vector<int64_t> reduced_dimensions(Call& call) {
  if (call.rank("self") == 0) return {};
  if (call.has("dim")) {
    auto named = call.dimensions("dim");
    if (!named.empty()) return named;
  }
  return all_dimensions(call.rank("self"));
}

bool keepdim(Call& call) {
  return call.boolean("keepdim");
}

namespace {

using Dimensions = std::vector<int64_t>;

/// Returns true if one of `dimensions`, the reduced dimensions, has the fixed size 0. In this case,
/// the results of ReduceSum depend on the ONNX runtime.
bool is_empty(Call& call, const Dimensions& dimensions) {
  const auto& sizes = call.sizes("self");
  return std::any_of(dimensions.begin(), dimensions.end(), [&](int64_t dimension) {
    const auto& size = sizes.at(static_cast<std::size_t>(dimension));
    return is_fixed(size) && size.value == 0;
  });
}

Value sum_of(Call& call, Value value, const Dimensions& dimensions, bool keep) {
  auto& graph = call.graph();
  if (is_empty(call, dimensions)) {
    return graph.add("Expand", {graph.number(value.type, 0), call.shape(call.result_sizes())});
  }
  return reduce(call, "ReduceSum", value, dimensions, keep);
}

void sum(Call& call) {
  const auto value = call.operand("self", call.result_type());
  call.set_output(sum_of(call, value, reduced_dimensions(call), keepdim(call)));
}

/// Translates mean. The mean of no elements is NaN in LibTorch, but ReduceMean of onnxruntime
/// returns 0.
void mean(Call& call) {
  auto& graph = call.graph();
  const auto dimensions = reduced_dimensions(call);
  const auto& sizes = call.sizes("self");
  const bool may_be_empty =
      std::any_of(dimensions.begin(), dimensions.end(), [&](int64_t dimension) {
        return call.smallest(sizes.at(static_cast<std::size_t>(dimension))) < 1;
      });
  if (!may_be_empty) {
    const auto value = call.operand("self", call.result_type());
    return call.set_output(reduce(call, "ReduceMean", value, dimensions, keepdim(call)));
  }
  const auto value = call.operand("self", at_least_float32(call.result_type()));
  const auto sum = sum_of(call, value, dimensions, keepdim(call));
  call.set_output(graph.add("Div", {sum, count(call, sizes, dimensions, value.type)}));
}

Rule reduction(const char* kind) {
  return [=](Call& call) {
    const auto value = call.operand("self", call.result_type());
    call.set_output(reduce(call, kind, value, reduced_dimensions(call), keepdim(call)));
  };
}

/// Returns true where any of the reduced elements is true. The result is computed with ReduceSum,
/// since ReduceMax fails for dimensions of size 0.
Value any_of(Call& call, Value value) {
  const auto sum =
      sum_of(call, call.graph().cast(value, Type::int32), reduced_dimensions(call), keepdim(call));
  return call.graph().cast(sum, Type::boolean);
}

void any(Call& call) {
  call.set_output(any_of(call, call.operand("self", Type::boolean)));
}

void all(Call& call) {
  auto& graph = call.graph();
  const auto wrong = graph.add("Not", {call.operand("self", Type::boolean)});
  call.set_output(graph.add("Not", {any_of(call, wrong)}));
}

/// Returns the translation rule of var, or of std if `root` is set. If `with_mean` is set, returns
/// the rule of var_mean or std_mean instead.
Rule variance(bool root, bool with_mean) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto self = call.operand("self", at_least_float32(call.result_type()));
    const auto dimensions = reduced_dimensions(call);
    const auto mean = reduce(call, "ReduceMean", self, dimensions, true);
    const auto difference = graph.add("Sub", {self, mean});
    const auto squares = reduce(call, "ReduceSum", graph.add("Mul", {difference, difference}),
                                dimensions, keepdim(call));
    double correction = 1.0;
    if (call.has("correction")) correction = call.real("correction");
    if (call.has("unbiased")) correction = call.boolean("unbiased") ? 1.0 : 0.0;
    const auto elements = count(call, call.sizes("self"), dimensions, self.type);
    const auto freedom = graph.add("Sub", {elements, graph.number(self.type, correction)});
    // As in LibTorch, the divisor is clamped to at least 0.
    const auto divisor = graph.add("Max", {freedom, graph.number(self.type, 0)});
    auto result = graph.add("Div", {squares, divisor});
    if (root) result = graph.add("Sqrt", {result});
    call.set_output(result);
    if (with_mean) {
      call.set_output(keepdim(call) ? mean : reduce(call, "ReduceMean", self, dimensions, false),
                      1);
    }
  };
}

Rule norm(const char* order) {
  return [=](Call& call) {
    const auto value = call.operand("self", at_least_float32(call.result_type()));
    const double p = call.has(order) ? call.real(order) : 2.0;
    call.set_output(norm_of(call, value, p, reduced_dimensions(call), keepdim(call)));
  };
}

void cumulative_sum(Call& call) {
  auto& graph = call.graph();
  const auto value = call.operand("self", call.result_type());
  if (call.rank("self") == 0) return call.set_output(value);
  call.set_output(graph.add("CumSum", {value, graph.number(Type::int64, call.dimension("dim"))}));
}

void count_nonzero(Call& call) {
  auto& graph = call.graph();
  const auto some = graph.cast(call.operand("self", Type::boolean), Type::int64);
  call.set_output(sum_of(call, some, reduced_dimensions(call), false));
}

}  // namespace

void add_reduction_rules(Rules& rules) {
  rules["sum.default"] = rules["sum.dim_IntList"] = sum;
  rules["mean.default"] = rules["mean.dim"] = mean;
  rules["prod.default"] = rules["prod.dim_int"] = reduction("ReduceProd");
  rules["logsumexp.default"] = reduction("ReduceLogSumExp");
  rules["any.default"] = rules["any.dim"] = rules["any.dims"] = any;
  rules["all.default"] = rules["all.dim"] = rules["all.dims"] = all;
  for (const auto* overload : {".default", ".dim", ".correction"}) {
    const auto named = [&](const char* name) { return std::string(name) + overload; };
    rules[named("var")] = variance(/*root=*/false, /*with_mean=*/false);
    rules[named("std")] = variance(/*root=*/true, /*with_mean=*/false);
    rules[named("var_mean")] = variance(/*root=*/false, /*with_mean=*/true);
    rules[named("std_mean")] = variance(/*root=*/true, /*with_mean=*/true);
  }
  for (const auto* overload :
       {"Scalar", "ScalarOpt_dim", "ScalarOpt_dtype", "ScalarOpt_dim_dtype"}) {
    rules[std::string("norm.") + overload] = norm("p");
  }
  rules["linalg_vector_norm.default"] = norm("ord");
  rules["cumsum.default"] = cumulative_sum;
  rules["count_nonzero.default"] = rules["count_nonzero.dim_IntList"] = count_nonzero;
}

}  // namespace attend::onnx
