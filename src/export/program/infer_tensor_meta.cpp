#include "export/program/infer_tensor_meta.h"

#include "export/program/sampled_sizes.h"
#include "export/program/symbolic_shapes.h"
#include "export/resize.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"
#include "pt2/program/runner.h"
#include "pt2/program/schema_enums.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace attend::program {
namespace {

/// Metadata of a tensor in all runs.
struct Observation {
  TensorMeta meta;  // metadata in the first run, except is_contiguous, which covers all runs
  /// The tensor's sizes in each run. The runs in which a dynamic dimension has size 1
  /// (`runs_with_ones`) are last.
  std::vector<std::vector<int64_t>> sizes;
  /// The tensor's strides, then its storage offset, in each of the other runs (`runs_of`).
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

void check_rank(const std::string& name, const torch::Tensor& tensor, const TensorMeta& meta) {
  if (static_cast<int64_t>(meta.sizes.size()) == tensor.dim()) return;
  throw std::runtime_error(
      fmt::format("the number of dimensions of the traced tensor '{}' must be constant, found {} "
                  "at the example's "
                  "sizes and {} at other sizes",
                  name, meta.sizes.size(), tensor.dim()));
}

/// Returns the value at `index` in each run.
std::vector<int64_t> column(const std::vector<std::vector<int64_t>>& runs, std::size_t index) {
  std::vector<int64_t> values;
  for (const auto& run : runs) values.push_back(run.at(index));
  return values;
}

/// Returns the symbolic expression of a size that has the value `values[i]` in run i. If there is
/// none and `unknown_dimensions` is `reject`, throws std::runtime_error; the message ends with
/// `advice`.
Size symbolic_size(const std::vector<int64_t>& values, const std::string& name,
                   SymbolicShapes& sizes, UnknownDimensions unknown_dimensions,
                   const char* advice = "") {
  const auto size = sizes.find(values);
  if (size) return *size;
  if (unknown_dimensions == UnknownDimensions::allow) {
    return {.value = values.front(),
            .expression = fmt::format("unknown({})", fmt::join(values, ","))};
  }
  const auto other = std::find_if(values.begin(), values.end(),
                                  [&](int64_t value) { return value != values.front(); });
  throw std::runtime_error(fmt::format(
      "traced tensor '{}': a size, stride or storage offset is {} at the example's sizes "
      "and {} at other sizes; expected a polynomial of degree 3 or less, with integer "
      "coefficients, in the dynamic sizes and floor divisions of them{}",
      name, values.front(), *other, advice));
}

/// Runs the program at several sizes and records the metadata of its tensors.
class Observations {
 public:
  Observations(const TracedProgram& traced, const std::vector<torch::Tensor>& example,
               const std::vector<DynamicDimension>& dynamic)
      : program_(traced.program),
        example_(example),
        dynamic_(dynamic),
        dimensions_(sampled_dimensions(example, dynamic)),
        runs_(runs_of(dimensions_)),
        runs_at_one_(runs_with_ones(dimensions_, runs_)),
        runner_(traced.program, traced.weights, example.front().device(), {"aten"}) {
    for (const auto& run : runs_) {
      observe(run, [&](const std::string& name, const torch::Tensor& tensor) {
        observe_tensor(name, tensor).strides.push_back(tensor.strides().vec());
        observations_.at(name).strides.back().push_back(tensor.storage_offset());
      });
    }
    for (const auto& run : runs_at_one_) {
      observe(run, [&](const std::string& name, const torch::Tensor& tensor) {
        observe_tensor(name, tensor);
      });
    }
  }

  const std::vector<SampledDimension>& dimensions() const { return dimensions_; }
  const std::vector<Run>& runs() const { return runs_; }
  const std::vector<Run>& runs_at_one() const { return runs_at_one_; }
  /// Names of tensors in execution order.
  const std::vector<std::string>& names() const { return names_; }
  const Observation& at(const std::string& name) const { return observations_.at(name); }

 private:
  void observe(const Run& run, const Runner::Recorder& recorder) const {
    const auto inputs = inputs_of(run);
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

  Observation& observe_tensor(const std::string& name, const torch::Tensor& tensor) {
    const auto [found, is_new] = observations_.try_emplace(name);
    auto& observation = found->second;
    if (is_new) {
      observation.meta = static_meta(tensor);
      names_.push_back(name);
    }
    check_rank(name, tensor, observation.meta);
    if (observation.meta.is_contiguous != tensor.is_contiguous())
      observation.meta.is_contiguous.reset();
    observation.sizes.push_back(tensor.sizes().vec());
    return observation;
  }

  std::vector<torch::Tensor> inputs_of(const Run& run) const {
    auto sizes = sizes_of(example_, dynamic_);
    for (std::size_t i = 0; i < dimensions_.size(); ++i) sizes[dimensions_[i].name] = run[i];
    return resize(example_, dynamic_, sizes);
  }

  const ExportedProgram& program_;
  const std::vector<torch::Tensor>& example_;
  const std::vector<DynamicDimension>& dynamic_;
  std::vector<SampledDimension> dimensions_;
  std::vector<Run> runs_;
  std::vector<Run> runs_at_one_;
  Runner runner_;
  std::map<std::string, Observation> observations_;
  std::vector<std::string> names_;
};

SymbolicShapes symbolic_shapes(const std::vector<SampledDimension>& dimensions,
                               const std::vector<Run>& runs) {
  std::vector<std::string> symbols;
  std::vector<std::vector<int64_t>> values(dimensions.size());
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    symbols.push_back(dimensions[i].symbol);
    for (const auto& run : runs) values[i].push_back(run[i]);
  }
  return {symbols, values};
}

/// Returns metadata with symbolic expressions. `sizes` finds the expressions of sizes from all
/// runs. `strides` finds the expressions of strides from the runs without sizes of 1.
TensorMeta symbolic_meta(const std::string& name, const Observation& observation,
                         SymbolicShapes& sizes, SymbolicShapes& strides,
                         UnknownDimensions unknown_dimensions) {
  auto meta = observation.meta;
  const auto num_runs_without_ones = static_cast<std::ptrdiff_t>(observation.strides.size());
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    const auto values = column(observation.sizes, i);
    if (unknown_dimensions == UnknownDimensions::allow) {
      meta.sizes[i] = symbolic_size(values, name, sizes, unknown_dimensions);
      continue;
    }
    // strides.find() is called for each size: if the size is a floor division, find() adds it to
    // the variables of `strides`, so that expressions of strides can contain it.
    const auto without_ones =
        strides.find({values.begin(), values.begin() + num_runs_without_ones});
    meta.sizes[i] = symbolic_size(values, name, sizes, unknown_dimensions,
                                  without_ones ? "; set min = 2 for the dynamic dimension" : "");
  }
  if (unknown_dimensions == UnknownDimensions::allow) return meta;
  const auto rank = meta.strides.size();
  for (std::size_t i = 0; i < rank; ++i) {
    meta.strides[i] =
        symbolic_size(column(observation.strides, i), name, strides, unknown_dimensions);
  }
  meta.storage_offset =
      symbolic_size(column(observation.strides, rank), name, strides, unknown_dimensions);
  return meta;
}

}  // namespace

void infer_tensor_meta(TracedProgram& traced, const std::vector<torch::Tensor>& example_inputs,
                       const std::vector<DynamicDimension>& dynamic,
                       UnknownDimensions unknown_dimensions) {
  auto& program = traced.program;
  const Observations observations(traced, example_inputs, dynamic);
  for (const auto& dimension : observations.dimensions()) {
    program.ranges[dimension.symbol] = dimension.range;
  }
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::user) continue;
    program.tensors[input.name] = static_meta(traced.weights.at(input.target));
  }
  auto strides = symbolic_shapes(observations.dimensions(), observations.runs());
  auto all_runs = observations.runs();
  all_runs.insert(all_runs.end(), observations.runs_at_one().begin(),
                  observations.runs_at_one().end());
  auto sizes = symbolic_shapes(observations.dimensions(), all_runs);
  for (const auto& name : observations.names()) {
    program.tensors[name] =
        symbolic_meta(name, observations.at(name), sizes, strides, unknown_dimensions);
  }
}

}  // namespace attend::program
