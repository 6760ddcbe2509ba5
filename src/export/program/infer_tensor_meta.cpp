#include "export/program/infer_tensor_meta.h"

#include "export/program/observations.h"
#include "export/program/size_expression.h"
#include "export/program/symbolic_shapes.h"

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
  const auto& dimensions = observations.dimensions();
  std::vector<std::string> symbols;
  std::vector<std::vector<int64_t>> values;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    symbols.push_back(dimensions[i].symbol);
    values.push_back(column(observations.runs(), i, count));
  }
  return {symbols, values, observations.fitted()};
}

/// Returns the strides of a dense tensor with the sizes `sizes`. The order of the dimensions in
/// memory is that of a tensor with the strides `example`. The stride of a dimension is the product
/// of the sizes of all dimensions that are inner to this dimension in memory. In the product, 1 is
/// used instead of a size of 0.
std::vector<Size> dense_strides(const std::vector<Size>& sizes,
                                const std::vector<int64_t>& example) {
  std::vector<std::size_t> inner_first(sizes.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), std::size_t{0});
  std::stable_sort(inner_first.begin(), inner_first.end(), [&](std::size_t one, std::size_t other) {
    return example[one] < example[other];
  });
  std::vector<Size> strides(sizes.size());
  int64_t value = 1;
  int64_t integer = 1;               // product of the constant sizes
  std::vector<std::string> factors;  // sizes with an expression
  for (const auto dimension : inner_first) {
    strides[dimension].value = value;
    if (!factors.empty()) {
      strides[dimension].expression =
          fmt::format("Mul(Integer({}), {})", integer, fmt::join(factors, ", "));
    }
    const auto& size = sizes[dimension];
    const auto factor = std::max(size.value, int64_t{1});
    value *= factor;
    if (size.expression.empty()) {
      integer *= factor;
    } else {
      factors.push_back(fmt::format("Max(Integer(1), {})", size.expression));
    }
  }
  return strides;
}

/// Finds the expressions of the sizes and strides of all tensors of a program.
class SymbolicMeta {
 public:
  SymbolicMeta(const Observations& observations, ExportedProgram& program,
               UnknownDimensions unknown_dimensions)
      : observations_(observations),
        program_(program),
        unknown_dimensions_(unknown_dimensions),
        sizes_(symbolic_shapes(observations, observations.runs().size())),
        strides_(symbolic_shapes(observations, observations.num_regular_runs())) {}

  TensorMeta of(const std::string& name) {
    const auto& observation = observations_.at(name);
    auto meta = observation.meta;
    for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
      meta.sizes[i] = size(name, i, column(observation.sizes, i, observation.sizes.size()));
    }
    if (unknown_dimensions_ == UnknownDimensions::placeholder) return meta;
    const auto rank = meta.strides.size();
    for (std::size_t i = 0; i <= rank; ++i) {
      const auto found =
          strides_.find(column(observation.strides, i, observations_.num_regular_runs()));
      if (!found) {
        // No expression was found, for example because strides are irregular if sizes are 0 or 1.
        // The strides of a dense tensor are used instead: compilers compute the actual strides from
        // the strides of the inputs.
        meta.strides = dense_strides(meta.sizes, observation.strides.at(1));
        meta.storage_offset = {};
        break;
      }
      (i < rank ? meta.strides[i] : meta.storage_offset) = *found;
    }
    return meta;
  }

 private:
  Size size(const std::string& name, std::size_t dimension, const std::vector<int64_t>& values) {
    const auto& data_dependent = observations_.data_dependent();
    if (const auto found = data_dependent.find({name, dimension}); found != data_dependent.end()) {
      if (const auto size = data_dependent_size(name, found->second, values)) return *size;
    }
    if (unknown_dimensions_ == UnknownDimensions::placeholder) {
      const auto found = sizes_.find(values);
      return found ? *found
                   : Size{.value = values.front(),
                          .expression = fmt::format("{}({})", kUnknown, fmt::join(values, ","))};
    }
    // Each size is looked up in `strides_` too. If the size is a floor division or a clamped size,
    // find() adds it to the variables of `strides_`, so that expressions of strides can contain the
    // size.
    strides_.find(regular(values));
    if (const auto found = sizes_.find(values)) return *found;
    return new_unbacked(values, /*is_variable=*/true);
  }

  /// Returns the expression of a size that depends on the values of tensors: an expression that is
  /// already known for this size, else a new unbacked symbol. With UnknownDimensions::placeholder,
  /// returns nullopt if no expression is known.
  std::optional<Size> data_dependent_size(const std::string& name, const DataDependentSize& size,
                                          const std::vector<int64_t>& values) {
    auto& [values_of_origin, size_of_origin] = origins_[size.origin];
    if (values_of_origin == values) return size_of_origin;
    const auto found = sizes_.find(values);
    if (found && (!size.depends_on_inputs || is_unbacked(found->expression))) return found;
    if (unknown_dimensions_ == UnknownDimensions::placeholder) {
      if (!found) return std::nullopt;
      // This size, and later sizes that are computed from this size, would be mistaken for sizes
      // that do not depend on values.
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
    const auto symbol = fmt::format("u{}", num_unbacked_++);
    program_.ranges[symbol] = {.min = 0, .max = std::nullopt};
    if (is_variable) {
      sizes_.add_unbacked(symbol, values);
      strides_.add_unbacked(symbol, regular(values));
    }
    return {.value = values.front(), .expression = unbacked_symbol(symbol)};
  }

  /// Returns the values in the first `Observations::num_regular_runs` runs.
  std::vector<int64_t> regular(const std::vector<int64_t>& values) const {
    const auto count = static_cast<std::ptrdiff_t>(observations_.num_regular_runs());
    return {values.begin(), values.begin() + count};
  }

  const Observations& observations_;
  ExportedProgram& program_;
  UnknownDimensions unknown_dimensions_;
  SymbolicShapes sizes_;    // expressions of sizes, found from all runs
  SymbolicShapes strides_;  // expressions of strides, found from the first runs (`regular`)
  /// The values in all runs and the unbacked symbol of each data-dependent size, by
  /// `DataDependentSize::origin`.
  std::map<std::string, std::pair<std::vector<int64_t>, Size>> origins_;
  int num_unbacked_ = 0;
};

}  // namespace

void infer_tensor_meta(TracedProgram& traced, const std::vector<torch::Tensor>& example_inputs,
                       const std::vector<DynamicDimension>& dynamic,
                       UnknownDimensions unknown_dimensions) {
  auto& program = traced.program;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::user) continue;
    program.tensors[input.name] = static_meta(traced.weights.at(input.target));
  }
  program.ranges.clear();
  const Observations observations(traced, example_inputs, dynamic);
  for (const auto& dimension : observations.dimensions()) {
    program.ranges[dimension.symbol] = dimension.range;
  }
  SymbolicMeta meta(observations, program, unknown_dimensions);
  for (const auto& name : observations.names()) program.tensors[name] = meta.of(name);
}

}  // namespace attend::program
