#include "export/program/infer_tensor_meta.h"

#include "export/program/node_arguments.h"
#include "export/program/observations.h"
#include "export/program/shape_functions.h"
#include "export/program/sym_int_nodes.h"
#include "export/program/symbolic_shapes.h"
#include "program/target.h"

#include <c10/core/WrapDimMinimal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace attend::program {
namespace {

/// Returns `runs[i][index]` for the first `count` runs i.
std::vector<int64_t> column(const std::vector<std::vector<int64_t>>& runs, std::size_t index,
                            std::size_t count) {
  std::vector<int64_t> values;
  for (std::size_t run = 0; run < count; ++run) values.push_back(runs.at(run).at(index));
  return values;
}

/// Returns a `SymbolicShapes` with the symbols of the dynamic dimensions and the values of the
/// symbols in the first `count` runs.
SymbolicShapes symbolic_shapes(const Observations& observations, std::size_t count) {
  std::vector<std::string> symbols;
  std::vector<std::vector<int64_t>> values;
  for (const auto& dimension : observations.dimensions()) {
    symbols.push_back(dimension.symbol);
    auto& sizes = values.emplace_back();
    for (std::size_t run = 0; run < count; ++run) {
      sizes.push_back(observations.runs()[run].at(dimension.name));
    }
  }
  return {symbols, values, observations.fitted()};
}

/// Returns the indices of the dimensions in the order of their strides, smallest stride first.
std::vector<std::size_t> inner_first(const std::vector<int64_t>& strides, std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t one, std::size_t other) {
    return strides[one] < strides[other];
  });
  return order;
}

/// Returns true if the stride of each dimension is the product of the sizes of the dimensions
/// before it in `order`. In the product, 1 is used instead of a size of 0.
bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
              const std::vector<std::size_t>& order) {
  int64_t product = 1;
  return std::all_of(order.begin(), order.end(), [&](std::size_t dimension) {
    return strides[dimension] ==
           std::exchange(product, product * std::max(sizes[dimension], int64_t{1}));
  });
}

/// Returns the strides of a dense tensor, see `is_dense`.
std::vector<Size> dense_strides(const std::vector<Size>& sizes,
                                const std::vector<std::size_t>& order,
                                const std::map<std::string, Range>& ranges) {
  std::vector<Size> strides(sizes.size());
  Size product{1};
  for (const auto dimension : order) {
    strides[dimension] = product;
    const auto& size = sizes[dimension];
    const bool may_be_0 = bounds_of(size, ranges).first < 1;
    product = product * (may_be_0 ? max(size, Size{1}) : size);
  }
  return strides;
}

bool is_unbacked(const Size& size) {
  return size.expression.contains(Expression::Kind::unbacked);
}

/// Finds the expressions of the sizes and strides of all tensors of a program.
class SymbolicMeta {
 public:
  SymbolicMeta(const Observations& observations, ExportedProgram& program, TargetFormat format)
      : observations_(observations),
        program_(program),
        format_(format),
        sizes_(symbolic_shapes(observations, observations.runs().size())),
        strides_(symbolic_shapes(observations, observations.num_regular_runs())) {}

  /// Returns the metadata of an input of the program.
  TensorMeta of_input(const std::string& name) { return meta_of(name, {}, {}); }

  /// Sets the metadata of the outputs of a node. The metadata of the node's inputs must be set.
  void set_outputs(const Node& node) {
    if (const auto* symbol = std::get_if<SymbolName>(&node.outputs.front())) {
      return set_number(symbol->name, node);
    }
    const auto known = shape_function(node, program_);
    std::vector<std::string> inputs;
    for (const auto& input : node.inputs) {
      const auto names = names_in(input.value);
      std::copy_if(names.begin(), names.end(), std::back_inserter(inputs),
                   [&](const std::string& name) { return observations_.contains(name); });
    }
    for (const auto& output : node.outputs) {
      for (const auto& name : names_in(output)) {
        if (observations_.contains(name)) program_.tensors[name] = meta_of(name, known, inputs);
      }
    }
    if (key_of(node.target) == "slice.Tensor") set_strides_of_slice(node);
  }

 private:
  /// Sets the metadata of a SymInt or SymFloat. Tensor sizes with the same values in all runs then
  /// have the same expression.
  void set_number(const std::string& name, const Node& node) {
    if (program_.sym_floats.contains(name)) return;
    const auto size = computed_size(program_, node);
    program_.sym_ints[name] = size;
    std::vector<int64_t> values;
    for (std::size_t run = 0; run < observations_.runs().size(); ++run) {
      values.push_back(evaluate(size, symbols_in(run)));
    }
    if (!size.expression.empty()) add(size.expression, values);
  }

  /// ONNX files have no strides, and finding their expressions is slow.
  bool has_strides() const { return format_ != TargetFormat::onnx; }

  /// Returns the metadata of the tensor `name`. `known`: sizes that follow from the definition of
  /// the operator that returns the tensor. `inputs`: names of the operator's inputs.
  TensorMeta meta_of(const std::string& name, const ShapeFunctionResult& known,
                     const std::vector<std::string>& inputs) {
    const auto& observation = observations_.at(name);
    auto meta = observation.meta;
    const auto rank = meta.sizes.size();
    for (std::size_t i = 0; i < rank; ++i) {
      const auto values = column(observation.sizes, i, observation.sizes.size());
      meta.sizes[i] = size(name, i, values, known, inputs);
    }
    if (has_strides()) set_strides(meta, observation);
    return meta;
  }

  /// Sets the strides and the storage offset.
  void set_strides(TensorMeta& meta, const Observation& observation) {
    const auto rank = meta.sizes.size();
    const auto count = observations_.num_regular_runs();
    const auto order = inner_first(observation.strides.at(1), rank);
    bool all_dense = true;
    for (std::size_t run = 0; run < count; ++run) {
      all_dense = all_dense && is_dense(observation.sizes[run], observation.strides[run], order);
    }
    std::vector<Size> strides;
    for (std::size_t i = 0; i < rank && !all_dense; ++i) {
      const auto found = strides_.find(column(observation.strides, i, count));
      // Strides may have no expression, for example because they are irregular at sizes 0 and 1. In
      // this case, the strides of a dense tensor are used. They may be wrong, but compilers compute
      // the actual strides from the strides of the inputs.
      if (!found) break;
      strides.push_back(*found);
    }
    const bool all_found = strides.size() == rank;
    meta.strides = all_found ? strides : dense_strides(meta.sizes, order, program_.ranges);
    const auto offset = strides_.find(column(observation.strides, rank, count));
    meta.storage_offset = offset.value_or(Size{});
  }

  /// Sets the strides of a slice: the strides of the sliced tensor, with the stride of the sliced
  /// dimension multiplied by `step`. The runs do not always show these strides. For example,
  /// let x be a dense tensor of shape (B, T, E). If the runs with T > 900 are omitted, because they
  /// would need too much memory, x.slice(1, 0, 900) is dense in all runs. For the same reason,
  /// unsets `is_contiguous` if the slice was contiguous in all runs, but may not be contiguous at
  /// other sizes.
  void set_strides_of_slice(const Node& slice) {
    auto& meta = program_.tensors.at(std::get<TensorName>(slice.outputs.front()).name);
    const auto& self = program_.tensors.at(required_argument<TensorName>(slice, "self").name);
    const auto dimension = c10::maybe_wrap_dim(required_argument<int64_t>(slice, "dim"),
                                               static_cast<int64_t>(self.sizes.size()));
    const auto index = static_cast<std::size_t>(dimension);
    const bool is_whole = meta.sizes[index].expression == self.sizes[index].expression;
    if (!is_whole && dimension > 0 && meta.is_contiguous == true) meta.is_contiguous.reset();
    if (!has_strides()) return;
    const auto step = Size{required_argument<int64_t>(slice, "step")};
    meta.strides = self.strides;
    meta.strides[index] = meta.strides[index] * step;
  }

  /// Looks for a dimension of an input that has the size `values[i]` in each run i. Returns the
  /// expression of this size, or nullopt if there is no such dimension. Prefers a dimension with
  /// the index `dimension`, counted from the front or from the back, since most operators do not
  /// move dimensions. Other expressions may have the same values in all runs, but the expression of
  /// an input is more likely to be right.
  std::optional<Size> size_of_inputs(const std::vector<std::string>& inputs,
                                     const std::vector<int64_t>& values, std::size_t dimension,
                                     std::size_t rank) const {
    std::optional<Size> other;  // of a dimension with another index
    for (const auto& input : inputs) {
      const auto& sizes = program_.tensors.at(input).sizes;
      const auto& observed = observations_.at(input).sizes;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i].expression.empty()) continue;
        if (column(observed, i, observed.size()) != values) continue;
        if (i == dimension || i + rank == dimension + sizes.size()) return sizes[i];
        other = sizes[i];
      }
    }
    return other;
  }

  /// Returns true if a size has the given values in all runs.
  bool equals(const Size& size, const std::vector<int64_t>& values) const {
    for (std::size_t run = 0; run < values.size(); ++run) {
      if (evaluate(size, symbols_in(run)) != values[run]) return false;
    }
    return true;
  }

  /// Returns the values of the symbols in a run.
  std::map<std::string, int64_t> symbols_in(std::size_t run) const {
    std::map<std::string, int64_t> symbols;
    for (const auto& dimension : observations_.dimensions()) {
      symbols[dimension.symbol] = observations_.runs()[run].at(dimension.name);
    }
    for (const auto& [symbol, values] : unbacked_) symbols[symbol] = values[run];
    return symbols;
  }

  /// Returns the size that follows from the definition of the operator, if it agrees with all runs.
  /// Otherwise, returns the size from an earlier call of `infer_tensor_meta`, if it is an
  /// expression and agrees with all runs. Otherwise, returns nullopt.
  std::optional<Size> defined_size(const std::string& name, std::size_t dimension,
                                   const std::vector<int64_t>& values,
                                   const ShapeFunctionResult& known) const {
    const auto found = known.find({name, dimension});
    if (found != known.end() && equals(found->second, values)) return found->second;
    const auto meta = program_.tensors.find(name);
    if (meta == program_.tensors.end() || dimension >= meta->second.sizes.size()) {
      return std::nullopt;
    }
    const auto& size = meta->second.sizes[dimension];
    // Each call of `infer_tensor_meta` makes new unbacked symbols, so an earlier size that contains
    // an unbacked symbol cannot be used.
    if (size.expression.empty() || is_unbacked(size)) {
      return std::nullopt;
    }
    return equals(size, values) ? std::optional(size) : std::nullopt;
  }

  void add(const Expression& expression, const std::vector<int64_t>& values) {
    sizes_.add(expression, values);
    strides_.add(expression, regular(values));
  }

  Size size(const std::string& name, std::size_t dimension, const std::vector<int64_t>& values,
            const ShapeFunctionResult& known, const std::vector<std::string>& inputs) {
    const auto& data_dependent = observations_.data_dependent();
    if (const auto found = data_dependent.find({name, dimension}); found != data_dependent.end()) {
      if (const auto size = data_dependent_size(name, found->second, values)) return *size;
    } else if (const auto defined = defined_size(name, dimension, values, known)) {
      add(defined->expression, values);
      return {values.front(), defined->expression};
    } else if (const auto same = size_of_inputs(inputs, values, dimension,
                                                observations_.at(name).meta.sizes.size())) {
      return *same;
    }
    // The size is also looked up in `strides_`, but the result is not used. If the size is a floor
    // division or a clamped size, find() adds it to the variables of `strides_`, so that
    // expressions of strides can contain the size.
    if (has_strides()) strides_.find(regular(values));
    if (const auto found = sizes_.find(values)) return *found;
    return new_unbacked(values, /*is_variable=*/true);
  }

  /// Returns the expression of a size that depends on the values of tensors. Uses a known
  /// expression if there is one, else a new unbacked symbol. If the size depends on inputs, only a
  /// known expression with an unbacked symbol is used. For ONNX, makes no new symbol: returns
  /// nullopt if no expression is known, and throws std::runtime_error if the known expression
  /// cannot be used.
  std::optional<Size> data_dependent_size(const std::string& name, const DataDependentSize& size,
                                          const std::vector<int64_t>& values) {
    auto& [values_of_origin, size_of_origin] = origins_[size.origin];
    if (values_of_origin == values) return size_of_origin;
    const auto found = sizes_.find(values);
    if (found && (!size.depends_on_inputs || is_unbacked(*found))) return found;
    if (format_ == TargetFormat::onnx) {
      if (!found) return std::nullopt;
      // Without this error, this size, and later sizes that are computed from this size, would be
      // mistaken for sizes that do not depend on values.
      throw std::runtime_error(fmt::format(
          "traced tensor '{}': the size {} depends on the values of the inputs, but was the same "
          "for all values that the exporter tried; pass example inputs for which a change of the "
          "values changes this size",
          name, values.front()));
    }
    values_of_origin = values;
    size_of_origin = new_unbacked(values, /*is_variable=*/!found);
    return size_of_origin;
  }

  /// Returns a new unbacked symbol. `is_variable`: true if later expressions may contain the
  /// symbol.
  Size new_unbacked(const std::vector<int64_t>& values, bool is_variable) {
    const auto name = fmt::format("u{}", unbacked_.size());
    const auto symbol = Expression::unbacked(name);
    program_.ranges[name] = {.min = 0, .max = std::nullopt};
    unbacked_[name] = values;
    if (is_variable) add(symbol, values);
    return {.value = values.front(), .expression = symbol};
  }

  /// Returns the values in the first `Observations::num_regular_runs` runs.
  std::vector<int64_t> regular(const std::vector<int64_t>& values) const {
    const auto count = static_cast<std::ptrdiff_t>(observations_.num_regular_runs());
    return {values.begin(), values.begin() + count};
  }

  const Observations& observations_;
  ExportedProgram& program_;
  TargetFormat format_;
  SymbolicShapes sizes_;    // expressions of sizes, found from all runs
  SymbolicShapes strides_;  // expressions of strides, found from the first runs (`regular`)
  /// For each `DataDependentSize::origin`: the values of the size in all runs, and the unbacked
  /// symbol of the size.
  std::map<std::string, std::pair<std::vector<int64_t>, Size>> origins_;
  std::map<std::string, std::vector<int64_t>> unbacked_;  // values in all runs, by symbol
};

}  // namespace

void infer_tensor_meta(TracedProgram& traced, TargetFormat format) {
  auto& program = traced.program;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::user) continue;
    program.tensors[input.name] = static_meta(traced.weights.at(input.target));
  }
  program.ranges.clear();
  const Observations observations(traced);
  for (const auto& dimension : observations.dimensions()) {
    program.ranges[dimension.symbol] = dimension.range();
  }
  SymbolicMeta meta(observations, program, format);
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::user) program.tensors[input.name] = meta.of_input(input.name);
  }
  for (const auto& node : program.nodes) meta.set_outputs(node);
}

}  // namespace attend::program
