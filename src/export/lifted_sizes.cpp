#include "export/lifted_sizes.h"

#include "export/cost_model.h"
#include "export/program/sym_int_nodes.h"
#include "export/program/symbolic_shapes.h"
#include "export/resize.h"
#include "export/schedule.h"
#include "export/specialized_dimension.h"
#include "export/trace.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace attend {
namespace {

namespace jit = torch::jit;
using program::Expression;

/// Value of an integer in each trace.
using Column = std::vector<int64_t>;

/// A real number that was computed from an expression of sizes.
struct RealSize {
  Expression base;
  bool is_root = false;     // of the base
  bool is_inverse = false;  // of the base or its root
  double factor = 1.0;
};

/// Adds the nodes that compute expressions of sizes to a graph.
class SizeNodes {
 public:
  explicit SizeNodes(jit::Graph& graph) : graph_(graph) {}

  /// Defines a symbol: the size of `tensor` in dimension `dimension`.
  void define(const std::string& symbol, jit::Value* tensor, int64_t dimension) {
    symbols_[symbol] = {tensor, dimension};
  }

  /// Returns the value of an expression. Adds the nodes that are missing before `user`.
  jit::Value* value_of(const Expression& expression, jit::Node* user) {
    if (expression.is(Expression::Kind::integer)) {
      const jit::WithInsertPoint before(user);
      return graph_.insertConstant(expression.integer());
    }
    const auto known = values_.find(expression);
    if (known != values_.end()) return known->second;
    auto* value = expression.is(Expression::Kind::symbol) ? size_of(symbols_.at(expression.text()))
                                                          : result_of(expression, user);
    values_[expression] = value;
    return value;
  }

  jit::Value* value_of(const RealSize& real, jit::Node* user) {
    auto* base = value_of(real.base, user);
    const jit::WithInsertPoint before(user);
    const auto type = c10::FloatType::get();
    auto* value = add(real.is_root ? c10::aten::sqrt : c10::aten::Float, {base}, type);
    if (real.is_inverse) {
      return add(c10::aten::div, {graph_.insertConstant(real.factor), value}, type);
    }
    if (real.factor == 1.0) return value;
    return add(c10::aten::mul, {value, graph_.insertConstant(real.factor)}, type);
  }

  /// Returns a tensor like `constant`, a tensor of int64 with at most one dimension, with these
  /// elements.
  jit::Value* tensor_of(const std::vector<Expression>& elements, const torch::Tensor& constant,
                        jit::Node* user) {
    std::vector<jit::Value*> numbers;
    for (const auto& element : elements) numbers.push_back(value_of(element, user));
    const jit::WithInsertPoint before(user);
    for (auto*& number : numbers) {
      number = graph_.insert(c10::aten::full, {std::vector<int64_t>{}, number},
                             {{"dtype", torch::kLong}, {"device", constant.device()}});
    }
    if (constant.dim() == 0) return numbers.front();
    auto* list = graph_.insertNode(graph_.createList(c10::TensorType::get(), numbers))->output();
    return graph_.insert(c10::aten::stack, {list, 0});
  }

 private:
  struct Dimension {
    jit::Value* tensor;
    int64_t index;
  };

  /// Adds a node directly after the operator that returns the tensor, so that the tensor can be
  /// freed as before.
  jit::Value* size_of(const Dimension& dimension) {
    auto* source = dimension.tensor->node();
    const bool is_input = source->kind() == c10::prim::Param;
    const jit::WithInsertPoint after(is_input ? *graph_.nodes().begin() : source->next());
    return add(c10::aten::size, {dimension.tensor, graph_.insertConstant(dimension.index)},
               c10::IntType::get());
  }

  jit::Value* result_of(const Expression& expression, jit::Node* user) {
    std::vector<jit::Value*> arguments;
    for (const auto& argument : expression.arguments()) {
      arguments.push_back(value_of(argument, user));
    }
    const jit::WithInsertPoint before(user);
    if (expression.is(Expression::Kind::sqrt)) {
      auto* root = add(c10::aten::sqrt, arguments, c10::FloatType::get());
      return add(c10::aten::floor, {root}, c10::IntType::get());
    }
    const auto symbol =
        std::ranges::find(program::kSizeFunctions, expression.kind(), &program::SizeFunction::kind)
            ->symbol;
    auto* result = arguments.front();
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      result = add(symbol, {result, arguments[i]}, c10::IntType::get());
    }
    return result;
  }

  jit::Value* add(c10::Symbol kind, const std::vector<jit::Value*>& inputs,
                  const c10::TypePtr& type) {
    auto* node = graph_.insertNode(graph_.create(kind, inputs));
    node->output()->setType(type);
    return node->output();
  }

  jit::Graph& graph_;
  std::map<std::string, Dimension> symbols_;
  std::map<Expression, jit::Value*> values_;
};

/// A trace at other sizes than those of the example.
struct SizedTrace {
  SizesByName sizes;
  jit::Module scripted;                                     // owns the graph; empty for the example
  std::vector<std::vector<TracedArgument>> arguments = {};  // of each call
  std::vector<std::vector<jit::Value*>> outputs = {};       // of each call
};

/// The traces of a method at several sizes, first at the example's sizes. All traces are aligned.
class Traces {
 public:
  Traces(jit::Graph& example, const torch::nn::Module& module, const TracedMethod& method)
      : example_(example),
        module_(module),
        method_(method),
        dimensions_(dimensions_with(integer_constants(example))) {
    if (dimensions_.empty()) return;
    const auto schedule = fitting_sizes(dimensions_);
    smallest_ = schedule.near.at(1);
    add({.sizes = schedule.near.front(), .scripted = {}}, example);
    trace_at(smallest_);
    trace_at(sizes_near_example(dimensions_).back());
    trace_one_by_one(dimensions_, &ScheduledDimension::growing, kFewElements);
    if (!differ()) return;
    for (const auto& sizes : schedule.near) trace_at(sizes);
    num_regular_ = all_.size();
    for (const auto& sizes : schedule.below_2) trace_at(sizes);
    trace_one_by_one(dimensions_, &ScheduledDimension::growing, kManyElements);
    trace_one_by_one(dimensions_, &ScheduledDimension::consecutive, kManyElements);
    trace_around_new_constants();
  }

  const std::vector<ScheduledDimension>& dimensions() const { return dimensions_; }

  /// Returns true if there are enough traces to find expressions, and a constant differs.
  bool can_be_lifted() const { return num_regular_ > 0 && all_.size() >= kMinTraces; }

  program::SymbolicShapes shapes() const {
    std::vector<std::string> symbols;
    std::vector<Column> values;
    for (const auto& dimension : dimensions_) {
      symbols.push_back(dimension.symbol);
      auto& sizes = values.emplace_back();
      for (const auto& trace : all_) sizes.push_back(trace.sizes.at(dimension.name));
    }
    std::vector<std::size_t> fitted;
    for (std::size_t i = 0; i < num_regular_; ++i) fitted.push_back(i);
    return {symbols, values, fitted};
  }

  /// Returns the values of an argument in all traces if it is a constant that differs. `T`: type of
  /// the constant. Returns nullopt for other arguments.
  template <typename T>
  std::optional<std::vector<T>> differing(const ArgumentPosition& position) const {
    std::vector<T> values;
    for (const auto& trace : all_) {
      const auto* value = trace.arguments[position.call][position.argument].value();
      const auto constant = jit::toIValue(value);
      if (!constant) return std::nullopt;
      if (std::is_same_v<T, int64_t> ? !constant->isInt() : !constant->isDouble()) {
        return std::nullopt;
      }
      values.push_back(constant->to<T>());
    }
    const bool differ =
        std::any_of(values.begin(), values.end(), [&](T value) { return value != values.front(); });
    return differ ? std::optional(values) : std::nullopt;
  }

  /// Returns the elements of an argument in all traces, one column for each element, if it is a
  /// constant tensor with the same few elements of type int64 in each trace, and an element
  /// differs. Returns {} for other arguments.
  std::vector<Column> differing_elements(const ArgumentPosition& position) const {
    std::vector<Column> columns;
    std::vector<int64_t> sizes;
    for (const auto& trace : all_) {
      const auto constant =
          jit::toIValue(trace.arguments[position.call][position.argument].value());
      if (!constant || !constant->isTensor()) return {};
      const auto& tensor = constant->toTensor();
      if (!tensor.defined() || tensor.scalar_type() != torch::kLong || tensor.dim() > 1 ||
          tensor.numel() > kMaxElements || (!columns.empty() && tensor.sizes() != sizes)) {
        return {};
      }
      sizes = tensor.sizes().vec();
      columns.resize(static_cast<std::size_t>(tensor.numel()));
      const auto flat = tensor.flatten();
      for (std::size_t i = 0; i < columns.size(); ++i) {
        columns[i].push_back(flat[static_cast<int64_t>(i)].item<int64_t>());
      }
    }
    const bool differ = std::any_of(columns.begin(), columns.end(), [](const Column& column) {
      return std::adjacent_find(column.begin(), column.end(), std::not_equal_to<>()) !=
             column.end();
    });
    return differ ? columns : std::vector<Column>();
  }

  /// Returns the sizes of an output in all traces: one column for each dimension.
  std::vector<Column> sizes_of_output(std::size_t call, std::size_t output) const {
    std::vector<Column> columns;
    for (const auto& trace : all_) {
      const auto type = trace.outputs[call][output]->type()->cast<c10::TensorType>();
      const auto sizes = type ? type->sizes().concrete_sizes() : std::nullopt;
      if (!sizes || (!columns.empty() && columns.size() != sizes->size())) return {};
      columns.resize(sizes->size());
      for (std::size_t i = 0; i < sizes->size(); ++i) columns[i].push_back((*sizes)[i]);
    }
    return columns;
  }

 private:
  static constexpr uint64_t kSeed = 3;  // of random sizes
  /// With fewer traces, an expression may equal a constant in all of them by coincidence.
  static constexpr std::size_t kMinTraces = 5;
  static constexpr int64_t kMaxElements = 16;  // of a tensor that is lifted
  static constexpr int64_t kMaxBytes = int64_t{64} << 20;
  static constexpr int64_t kFewElements = int64_t{1} << 22;
  static constexpr int64_t kManyElements = int64_t{1} << 24;

  void add(SizedTrace trace, jit::Graph& graph) {
    for (auto* call : calls_of(graph)) {
      trace.arguments.push_back(traced_arguments(*call));
      trace.outputs.push_back(traced_outputs(*call));
    }
    all_.push_back(std::move(trace));
  }

  /// Adds a trace, unless there is one at these sizes, the module throws, or the trace is not
  /// aligned. Returns the cost of the forward pass at these sizes.
  OperatorCost trace_at(const SizesByName& sizes) {
    const auto [known, is_new] = costs_.try_emplace(sizes);
    auto& cost = known->second;
    if (!is_new) return cost;
    SizedTrace trace{.sizes = sizes, .scripted = to_script_module(module_)};
    const auto inputs = resize(method_.example_inputs, method_.dynamic, sizes);
    try {
      const OperatorCostGuard guard(cost);
      add_traced_method(trace.scripted, "forward", method_.function, inputs, {});
    } catch (const std::exception&) {
      return cost;
    }
    cost.bytes = std::max(cost.bytes, bytes_of(inputs));
    const auto graph = trace.scripted.get_method("forward").graph();
    const bool is_example = sizes == all_.front().sizes;
    if (!is_example && are_aligned(example_, *graph)) add(std::move(trace), *graph);
    return cost;
  }

  /// Traces at sizes from `list`, in ascending order, in one dimension at a time. The other
  /// dimensions have their smallest sizes.
  void trace_one_by_one(const std::vector<ScheduledDimension>& dimensions,
                        std::vector<int64_t> ScheduledDimension::*list, int64_t max_elements) {
    RunLoop loop(smallest_, {.bytes = kMaxBytes, .elements = max_elements},
                 [&](const SizesByName& sizes) { return trace_at(sizes); });
    for (const auto& dimension : dimensions) {
      for (const auto size : dimension.*list) {
        if (!loop.run_if_affordable(with_size(smallest_, dimension, size))) break;
      }
    }
  }

  /// Traces at sizes near the constants that only the traces at large sizes contain: the limit 512
  /// of min(x.size(1), 512), for example.
  void trace_around_new_constants() {
    std::set<int64_t> constants;
    for (const auto& trace : all_) {
      if (trace.arguments.empty() || &trace == &all_.front()) continue;
      const auto some = integer_constants(*trace.scripted.get_method("forward").graph());
      constants.insert(some.begin(), some.end());
    }
    for (const auto& trace : all_) {
      for (const auto& [name, size] : trace.sizes) constants.erase(size);
    }
    constexpr std::size_t kMaxConstants = 8;
    if (constants.size() > kMaxConstants) return;
    trace_one_by_one(dimensions_with(constants), &ScheduledDimension::around_constants,
                     kManyElements);
  }

  /// Returns the dynamic dimensions that have several sizes, see `scheduled_dimensions`.
  std::vector<ScheduledDimension> dimensions_with(const std::set<int64_t>& constants) const {
    auto dimensions =
        scheduled_dimensions(method_.example_inputs, method_.dynamic, constants, kSeed);
    std::erase_if(dimensions, [](const auto& dimension) { return dimension.symbol.empty(); });
    return dimensions;
  }

  /// Returns true if a constant differs between the traces.
  bool differ() const {
    const auto& arguments = all_.front().arguments;
    for (std::size_t call = 0; call < arguments.size(); ++call) {
      for (std::size_t i = 0; i < arguments[call].size(); ++i) {
        if (differing<int64_t>({call, i}) || differing<double>({call, i}) ||
            !differing_elements({call, i}).empty()) {
          return true;
        }
      }
    }
    return false;
  }

  jit::Graph& example_;
  const torch::nn::Module& module_;
  const TracedMethod& method_;
  std::vector<ScheduledDimension> dimensions_;
  SizesByName smallest_;
  std::vector<SizedTrace> all_;
  std::map<SizesByName, OperatorCost> costs_;  // of the forward passes in all_ and of others
  std::size_t num_regular_ = 0;                // traces at small sizes without 1
};

/// Returns the integers nearest to factor * number, or {} if they are not close to these products.
Column whole_numbers(const std::vector<double>& numbers, double factor) {
  Column column;
  for (const auto number : numbers) {
    const auto product = factor * number;
    const auto rounded = std::round(product);
    // forward may have computed the number in float32.
    const auto tolerance = std::min(1e-6 * std::abs(product), 0.01);
    if (!(std::abs(product) < 0x1p40) || std::abs(product - rounded) > tolerance) return {};
    column.push_back(static_cast<int64_t>(rounded));
  }
  return column;
}

/// Returns the number as factor * base, factor / base, factor * sqrt(base) or factor / sqrt(base),
/// or nullopt if it is none of them. For example, 2 / (T - 1) is factor / base.
std::optional<RealSize> find_real(const std::vector<double>& values,
                                  program::SymbolicShapes& shapes) {
  for (const double exponent : {1.0, -1.0, 2.0, -2.0}) {
    std::vector<double> powers;
    for (const auto value : values) powers.push_back(std::pow(value, exponent));
    for (const double divisor :
         {1, 2, 3, 4, 5, 6, 8, 9, 10, 16, 25, 32, 36, 64, 100, 128, 256, 1000}) {
      const auto column = whole_numbers(powers, divisor);
      if (column.empty()) continue;
      const auto found = shapes.find(column);
      if (!found || found->expression.empty()) continue;
      const bool is_root = std::abs(exponent) == 2.0;
      return RealSize{.base = found->expression,
                      .is_root = is_root,
                      .is_inverse = exponent < 0,
                      .factor = (is_root && values.front() < 0 ? -1.0 : 1.0) *
                                std::pow(divisor, -1.0 / exponent)};
    }
  }
  return std::nullopt;
}

/// Removes constants that are not used any more.
void remove_unused_constants(jit::Graph& graph) {
  for (auto node = graph.nodes().begin(); node != graph.nodes().end(); ++node) {
    if (node->kind() == c10::prim::Constant && !node->hasUses()) node.destroyCurrent();
  }
}

/// Lifts the sizes in the trace `graph` of a method, see `trace_method`. Returns the positions of
/// the arguments that are computed now.
std::set<ArgumentPosition> lift_sizes(jit::Graph& graph, const torch::nn::Module& module,
                                      const TracedMethod& method) {
  const Traces traces(graph, module, method);
  if (traces.dimensions().empty() || !traces.can_be_lifted()) return {};
  auto shapes = traces.shapes();
  SizeNodes nodes(graph);
  for (const auto& dimension : traces.dimensions()) {
    const auto found = std::ranges::find(method.dynamic, dimension.name, &DynamicDimension::name);
    nodes.define(dimension.symbol, graph.inputs()[found->input + 1], found->dimension);
  }
  std::set<ArgumentPosition> lifted;
  const auto calls = calls_of(graph);
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const auto arguments = traced_arguments(*calls[call]);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto& [user, index] = arguments[i];
      jit::Value* value = nullptr;
      if (const auto integers = traces.differing<int64_t>({call, i})) {
        const auto found = shapes.find(*integers);
        if (found) value = nodes.value_of(found->expression, user);
      } else if (const auto reals = traces.differing<double>({call, i})) {
        const auto found = find_real(*reals, shapes);
        if (found) value = nodes.value_of(*found, user);
      } else if (const auto elements = traces.differing_elements({call, i}); !elements.empty()) {
        const auto& constant = jit::toIValue(arguments[i].value())->toTensor();
        std::vector<Expression> found;
        for (const auto& column : elements) {
          const auto size = shapes.find(column);
          if (!size) break;
          found.push_back(size->expression.empty() ? Expression(size->value) : size->expression);
        }
        if (found.size() == elements.size()) value = nodes.tensor_of(found, constant, user);
      }
      if (value == nullptr) continue;
      user->replaceInput(index, value);
      lifted.insert({call, i});
    }
    const auto outputs = traced_outputs(*calls[call]);
    for (std::size_t output = 0; output < outputs.size(); ++output) {
      const auto columns = traces.sizes_of_output(call, output);
      for (std::size_t dimension = 0; dimension < columns.size(); ++dimension) {
        const auto symbol = fmt::format("{}_{}_{}", call, output, dimension);
        shapes.add(Expression::symbol(symbol), columns[dimension]);
        nodes.define(symbol, outputs[output], static_cast<int64_t>(dimension));
      }
    }
  }
  remove_unused_constants(graph);
  return lifted;
}

bool has_recurrent_layers(const jit::Graph& graph) {
  const auto nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const jit::Node* node) {
    return node->kind() == c10::aten::lstm || node->kind() == c10::aten::gru ||
           node->kind() == c10::aten::rnn_tanh || node->kind() == c10::aten::rnn_relu;
  });
}

}  // namespace

TraceSummary trace_method(jit::Module& scripted, const torch::nn::Module& module,
                          const TracedMethod& method, CallSites* sites) {
  std::optional<RecordCallSites> recording;
  if (sites != nullptr) recording.emplace(*sites);
  auto outputs = add_traced_method(scripted, method.name, method.function, method.example_inputs,
                                   method.input_names);
  recording.reset();  // other traces follow
  const auto graph = scripted.get_method(method.name).graph();
  TraceSummary summary{.method = method,
                       .lifted = lift_sizes(*graph, module, method),
                       .outputs = std::move(outputs)};
  summary.integers = integer_constants(*graph);
  if (has_recurrent_layers(*graph)) {
    const auto specialization = find_specialization(module, summary);
    if (specialization) throw *specialization;
  }
  return summary;
}

}  // namespace attend
