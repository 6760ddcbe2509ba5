#include "export/program/infer_tensor_meta.h"

#include "export/cost_model.h"
#include "export/program/data_dependent_sizes.h"
#include "export/program/sampled_sizes.h"
#include "export/program/size_expression.h"
#include "export/program/symbolic_shapes.h"
#include "export/resize.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"
#include "export/trial_values.h"
#include "pt2/program/runner.h"
#include "pt2/program/schema_enums.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace attend::program {
namespace {

/// Metadata of a tensor in all runs.
struct Observation {
  TensorMeta meta;  // metadata in the first run; is_contiguous is unset if it differs in other runs
  /// Sizes in each run: first the runs of `runs_of`, `far_runs_of` and `runs_with_ones` (see
  /// sampled_sizes.h), then the runs with other values of the inputs.
  std::vector<std::vector<int64_t>> sizes;
  /// Strides, followed by the storage offset, in each run of `runs_of` and `far_runs_of`.
  std::vector<std::vector<int64_t>> strides;
};

TensorMeta static_meta(const torch::Tensor& tensor) {
  TensorMeta meta{.dtype = schema_enum(tensor.scalar_type()),
                  .sizes = {},
                  .strides = {},
                  .storage_offset = {},
                  .requires_grad = tensor.requires_grad(),
                  .device = device_of(tensor.device()),
                  .layout = schema_enum(tensor.layout())};
  for (const auto size : tensor.sizes()) meta.sizes.push_back({size, {}});
  for (const auto stride : tensor.strides()) meta.strides.push_back({stride, {}});
  meta.is_contiguous = tensor.is_contiguous();
  return meta;
}

void check_rank(const std::string& name, std::size_t rank, const TensorMeta& meta) {
  if (meta.sizes.size() == rank) return;
  throw std::runtime_error(
      fmt::format("the number of dimensions of the traced tensor '{}' must be constant, found {} "
                  "at the example's sizes and {} at other sizes or values",
                  name, meta.sizes.size(), rank));
}

/// Returns the value at `index` in each run.
std::vector<int64_t> column(const std::vector<std::vector<int64_t>>& runs, std::size_t index) {
  std::vector<int64_t> values;
  for (const auto& run : runs) values.push_back(run.at(index));
  return values;
}

/// Sizes and strides of a tensor when it was computed. Later operators may change them in place.
struct Layout {
  std::string name;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // followed by the storage offset
  bool is_contiguous;
};

/// Runs the program at several sizes and records the metadata of its tensors.
class Observations {
 public:
  Observations(const TracedProgram& traced, const std::vector<torch::Tensor>& example,
               const std::vector<DynamicDimension>& dynamic)
      : program_(traced.program),
        example_(example),
        dynamic_(dynamic),
        dimensions_(sampled_dimensions(example, dynamic, traced.integers)),
        runs_(runs_of(dimensions_)),
        runs_at_one_(runs_with_ones(dimensions_, runs_)),
        runner_(traced.program, traced.weights, example.front().device(),
                {.namespaces = {"aten"}}) {
    observe(inputs_of(runs_.front()), [&](const std::string& name, const torch::Tensor& tensor) {
      observations_[name].meta = static_meta(tensor);
      names_.push_back(name);
    });
    auto tensors = program_.tensors;  // of the weights
    for (const auto& [name, observation] : observations_) tensors[name] = observation.meta;
    data_dependent_ = data_dependent_sizes(program_, tensors);
    for (const auto& run : runs_) record(layouts_of(inputs_of(run)), /*with_strides=*/true);
    record_far_runs();
    for (const auto& run : runs_at_one_) record(layouts_of(inputs_of(run)), /*with_strides=*/false);
    record_other_values();
    record_smaller_sizes();
  }

  const std::vector<SampledDimension>& dimensions() const { return dimensions_; }
  const std::vector<Run>& runs() const { return runs_; }
  const std::vector<Run>& far_runs() const { return far_runs_; }
  const std::vector<Run>& runs_at_one() const { return runs_at_one_; }
  /// Runs with the sizes of the example inputs in which sizes that depend on values are others.
  const std::vector<Run>& value_runs() const { return value_runs_; }
  const DataDependentSizes& data_dependent() const { return data_dependent_; }
  /// Indices of the runs that determine the coefficients of polynomials: those of `runs` and
  /// `far_runs`, in this order, that have small sizes.
  std::vector<std::size_t> fitted() const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (is_small(runs_[i])) indices.push_back(i);
    }
    for (std::size_t i = 0; i < far_runs_.size(); ++i) {
      if (is_small(far_runs_[i])) indices.push_back(runs_.size() + i);
    }
    return indices;
  }
  /// Names of tensors in execution order.
  const std::vector<std::string>& names() const { return names_; }
  const Observation& at(const std::string& name) const { return observations_.at(name); }

 private:
  /// Records the runs of `far_runs_of`. Omits runs that are predicted to need too much memory or
  /// time.
  void record_far_runs() {
    constexpr int64_t kMaxBytes = int64_t{64} << 20;
    int64_t remaining_elements = int64_t{1} << 27;
    const auto& base = runs_.at(1);
    std::vector<Layout> layouts;
    const auto run_with_cost = [&](const Run& run) {
      OperatorCost cost;
      const auto inputs = inputs_of(run);
      const OperatorCostGuard guard(cost);
      layouts = layouts_of(inputs);
      cost.bytes = std::max(cost.bytes, bytes_of(inputs));
      return cost;
    };
    CostModel costs(by_name(base), run_with_cost(base));
    for (const auto& run : far_runs_of(dimensions_, runs_)) {
      const auto predicted = costs.predict(by_name(run));
      if (predicted.bytes > kMaxBytes || predicted.elements > remaining_elements) continue;
      const auto cost = run_with_cost(run);
      remaining_elements -= cost.elements;
      const auto [changed, same] = std::mismatch(run.begin(), run.end(), base.begin());
      if (changed != run.end() && std::equal(changed + 1, run.end(), same + 1)) {
        const auto& dimension = dimensions_[static_cast<std::size_t>(changed - run.begin())];
        costs.add(dimension.name, *changed, cost);
      }
      record(layouts, /*with_strides=*/true);
      far_runs_.push_back(run);
    }
  }

  /// Records runs with other values of the inputs, since sizes may depend on the values. Omits
  /// values for which the program throws.
  void record_other_values() {
    for (const auto values : kOtherValues) {
      std::vector<torch::Tensor> inputs;
      for (const auto& input : example_) inputs.push_back(with_values(input, values).clone());
      std::vector<Layout> layouts;
      try {
        layouts = layouts_of(inputs);
      } catch (const std::exception&) {
        continue;
      }
      record(layouts, /*with_strides=*/false);
      value_runs_.push_back(runs_.front());
    }
  }

  /// Records runs in which the sizes that depend on values are small, since no tried value of the
  /// inputs may select so few elements: 0, 1, 2, ... in all operators, then another number in each.
  /// Omits numbers for which the program throws.
  void record_smaller_sizes() {
    if (data_dependent_.empty()) return;
    for (const auto& [least, step] :
         {std::pair{0, 0}, {1, 0}, {2, 0}, {3, 0}, {5, 0}, {0, 1}, {2, 1}}) {
      std::map<std::string, int64_t> limits;  // by origin
      std::vector<Layout> layouts;
      try {
        layouts = layouts_of(copies_of(example_), [&](const std::string& name,
                                                      const torch::Tensor& tensor) {
          for (int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
            const auto found = data_dependent_.find({name, static_cast<std::size_t>(dimension)});
            if (found == data_dependent_.end() || !found->second.depends_on_inputs) continue;
            const auto limit = limits
                                   .try_emplace(found->second.origin,
                                                least + step * static_cast<int64_t>(limits.size()))
                                   .first->second;
            if (tensor.size(dimension) > limit) {
              tensor.set_data(tensor.narrow(dimension, 0, limit).clone());
            }
          }
        });
      } catch (const std::exception&) {
        continue;
      }
      record(layouts, /*with_strides=*/false);
      value_runs_.push_back(runs_.front());
    }
  }

  void record(const std::vector<Layout>& layouts, bool with_strides) {
    for (const auto& [name, sizes, strides, is_contiguous] : layouts) {
      auto& observation = observations_.at(name);
      check_rank(name, sizes.size(), observation.meta);
      if (observation.meta.is_contiguous != is_contiguous) observation.meta.is_contiguous.reset();
      observation.sizes.push_back(sizes);
      if (with_strides) observation.strides.push_back(strides);
    }
  }

  /// Runs the program and returns the layouts of its tensors. `change` may change a tensor before
  /// later operators use it.
  std::vector<Layout> layouts_of(const std::vector<torch::Tensor>& inputs,
                                 const Runner::Recorder& change = {}) const {
    std::vector<Layout> layouts;
    observe(inputs, [&](const std::string& name, const torch::Tensor& tensor) {
      if (change) change(name, tensor);
      auto strides = tensor.strides().vec();
      strides.push_back(tensor.storage_offset());
      layouts.push_back({name, tensor.sizes().vec(), strides, tensor.is_contiguous()});
    });
    return layouts;
  }

  void observe(const std::vector<torch::Tensor>& inputs, const Runner::Recorder& recorder) const {
    std::size_t next = 0;
    for (const auto& input : program_.inputs) {
      if (input.kind == InputKind::user) recorder(input.name, inputs.at(next++));
    }
    try {
      runner_.run(inputs, recorder);
    } catch (const c10::Error& error) {
      throw std::runtime_error(
          fmt::format("the traced program rejects {}, although all sizes are within min and max of "
                      "the dynamic dimensions: {}",
                      shapes_text(inputs), short_message(error)));
    }
  }

  /// Returns true if each size is at most 1024, or at most 4 times the size in run 1 of `runs_of`.
  bool is_small(const Run& run) const {
    constexpr int64_t kSmall = 1024;
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (run[i] > std::max(kSmall, 4 * runs_.at(1)[i])) return false;
    }
    return true;
  }

  SizesByName by_name(const Run& run) const {
    SizesByName sizes;
    for (std::size_t i = 0; i < run.size(); ++i) sizes[dimensions_[i].name] = run[i];
    return sizes;
  }

  std::vector<torch::Tensor> inputs_of(const Run& run) const {
    auto sizes = sizes_of(example_, dynamic_);
    for (const auto& [name, size] : by_name(run)) sizes[name] = size;
    return resize(example_, dynamic_, sizes);
  }

  const ExportedProgram& program_;
  const std::vector<torch::Tensor>& example_;
  const std::vector<DynamicDimension>& dynamic_;
  std::vector<SampledDimension> dimensions_;
  std::vector<Run> runs_;
  std::vector<Run> far_runs_;
  std::vector<Run> runs_at_one_;
  std::vector<Run> value_runs_;
  Runner runner_;
  DataDependentSizes data_dependent_;
  std::map<std::string, Observation> observations_;
  std::vector<std::string> names_;
};

SymbolicShapes symbolic_shapes(const Observations& observations,
                               const std::vector<std::vector<Run>>& runs,
                               std::vector<std::size_t> fitted) {
  const auto& dimensions = observations.dimensions();
  std::vector<std::string> symbols;
  std::vector<std::vector<int64_t>> values(dimensions.size());
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    symbols.push_back(dimensions[i].symbol);
    for (const auto& some : runs) {
      for (const auto& run : some) values[i].push_back(run[i]);
    }
  }
  return {symbols, values, std::move(fitted)};
}

/// Returns the strides of a dense tensor with these sizes, whose dimensions are in the same order
/// in memory as with the strides `example`. A stride is the product of the sizes of the dimensions
/// that are inner in memory, where size 0 counts as 1.
std::vector<Size> dense_strides(const std::vector<Size>& sizes,
                                const std::vector<int64_t>& example) {
  std::vector<std::size_t> inner_first(sizes.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), std::size_t{0});
  std::stable_sort(inner_first.begin(), inner_first.end(), [&](std::size_t one, std::size_t other) {
    return example[one] < example[other];
  });
  std::vector<Size> strides(sizes.size());
  int64_t value = 1;
  std::vector<std::string> factors;
  for (const auto dimension : inner_first) {
    strides[dimension].value = value;
    if (!factors.empty()) {
      strides[dimension].expression =
          factors.size() == 1 ? factors.front() : fmt::format("Mul({})", fmt::join(factors, ", "));
    }
    const auto& size = sizes[dimension];
    value *= std::max(size.value, int64_t{1});
    if (!size.expression.empty()) {
      factors.push_back(fmt::format("Max(Integer(1), {})", size.expression));
    } else if (size.value > 1) {
      factors.push_back(fmt::format("Integer({})", size.value));
    }
  }
  for (auto& stride : strides) {  // products of numbers are numbers
    if (stride.expression.find("Symbol") == std::string::npos) stride.expression.clear();
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
        sizes_(symbolic_shapes(observations,
                               {observations.runs(), observations.far_runs(),
                                observations.runs_at_one(), observations.value_runs()},
                               observations.fitted())),
        strides_(symbolic_shapes(observations, {observations.runs(), observations.far_runs()},
                                 observations.fitted())) {}

  TensorMeta of(const std::string& name) {
    const auto& observation = observations_.at(name);
    auto meta = observation.meta;
    for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
      meta.sizes[i] = size(name, i, column(observation.sizes, i));
    }
    if (unknown_dimensions_ == UnknownDimensions::placeholder) return meta;
    const auto rank = meta.strides.size();
    for (std::size_t i = 0; i <= rank; ++i) {
      const auto found = strides_.find(column(observation.strides, i));
      if (!found) {
        // No expression was found, for example because strides are irregular where sizes are 0 or
        // 1. Compilers compute the strides from the inputs.
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
    // Each size is looked up in `strides_` too. If the size is a floor division or clamped, find()
    // adds it to the variables of `strides_`, so that expressions of strides can contain the size.
    strides_.find(with_strides(values));
    if (const auto found = sizes_.find(values)) return *found;
    return new_unbacked(values, /*is_variable=*/true);
  }

  /// Returns an expression of a size that depends on values: in general, a new unbacked symbol.
  /// Returns nullopt if the size gets a placeholder as expression.
  std::optional<Size> data_dependent_size(const std::string& name, const DataDependentSize& size,
                                          const std::vector<int64_t>& values) {
    auto& [values_of_origin, size_of_origin] = origins_[size.origin];
    if (values_of_origin == values) return size_of_origin;
    const auto found = sizes_.find(values);
    if (found && (!size.depends_on_inputs || is_unbacked(found->expression))) return found;
    if (unknown_dimensions_ == UnknownDimensions::placeholder) {
      if (!found) return std::nullopt;
      // This size would be mistaken for a size that does not depend on values, and so would later
      // sizes that are computed from it.
      throw std::runtime_error(fmt::format(
          "traced tensor '{}': the size {} depends on the values of the inputs, but no value that "
          "was tried changes it; expected example inputs for which other values change it",
          name, values.front()));
    }
    values_of_origin = values;
    size_of_origin = new_unbacked(values, /*is_variable=*/!found);
    return size_of_origin;
  }

  /// Returns a new unbacked symbol. `is_variable`: true if later expressions may contain it.
  Size new_unbacked(const std::vector<int64_t>& values, bool is_variable) {
    const auto symbol = fmt::format("u{}", num_unbacked_++);
    program_.ranges[symbol] = {.min = 0, .max = std::nullopt};
    if (is_variable) {
      sizes_.add_unbacked(symbol, values);
      strides_.add_unbacked(symbol, with_strides(values));
    }
    return {.value = values.front(), .expression = unbacked_symbol(symbol)};
  }

  /// Returns the values in the runs for which strides are recorded.
  std::vector<int64_t> with_strides(const std::vector<int64_t>& values) const {
    const auto count = observations_.runs().size() + observations_.far_runs().size();
    return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  const Observations& observations_;
  ExportedProgram& program_;
  UnknownDimensions unknown_dimensions_;
  SymbolicShapes sizes_;    // expressions of sizes, found from all runs
  SymbolicShapes strides_;  // expressions of strides, found from the runs with recorded strides
  /// Values in the runs, and unbacked symbol, of each data-dependent size, by
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
  const Observations observations(traced, example_inputs, dynamic);
  for (const auto& dimension : observations.dimensions()) {
    program.ranges[dimension.symbol] = dimension.range;
  }
  SymbolicMeta meta(observations, program, unknown_dimensions);
  for (const auto& name : observations.names()) program.tensors[name] = meta.of(name);
}

}  // namespace attend::program
