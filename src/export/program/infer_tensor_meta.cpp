#include "export/program/infer_tensor_meta.h"

#include "export/program/runner.h"
#include "export/program/schema_enums.h"
#include "export/program/symbolic_shapes.h"
#include "export/resize.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

namespace attend::program {
namespace {

/// Sizes of a dynamic dimension in the runs, relative to its minimum. Small steps detect floor
/// divisions, large ones detect large divisors.
constexpr std::array<int64_t, 10> kOffsets{0, 1, 2, 3, 5, 8, 13, 21, 34, 55};

/// Metadata of a tensor in all runs.
struct Observation {
  TensorMeta meta;                            // of the first run
  std::vector<std::vector<int64_t>> sizes;    // by run, runs with sizes of 1 last
  std::vector<std::vector<int64_t>> strides;  // by run without sizes of 1; last the storage offset
};

/// A dynamic dimension with its symbol in the program and its sizes in the runs.
struct SampledDimension {
  std::string name;
  std::string symbol;
  Range range;
  int64_t example = 0;
  std::vector<int64_t> sizes;  // without the example's
};

std::vector<int64_t> sizes_to_try(const Range& range) {
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t first) {
    for (const auto offset : kOffsets) {
      const auto size = first + offset;
      if (!range.max || size <= *range.max) sizes.push_back(size);
    }
  };
  const auto min = range.min.value_or(1);
  // Without 1, whose strides are arbitrary, unless there are too few other sizes.
  add(std::max<int64_t>(min, 2));
  if (sizes.size() < 2) {
    sizes.clear();
    add(min);
  }
  return sizes;
}

/// A large size, so that min(T, 100) is not mistaken for T. Smaller if the input would be too
/// large.
int64_t large_size(const torch::Tensor& input, int64_t dimension, const Range& range) {
  constexpr int64_t kLargeSize = 509;
  constexpr int64_t kMaxElements = int64_t{1} << 20;
  const auto slice = input.numel() / std::max<int64_t>(1, input.size(dimension));
  const auto large = std::min(kLargeSize, kMaxElements / std::max<int64_t>(1, slice));
  return std::min(large, range.max.value_or(large));
}

std::vector<SampledDimension> dimensions_of(const std::vector<torch::Tensor>& example,
                                            const std::vector<DynamicDimension>& dynamic) {
  std::vector<SampledDimension> all;
  for (const auto& dimension : distinct(dynamic)) {
    if (dimension.min == dimension.max) continue;  // static
    Range range{.min = dimension.min, .max = {}};
    if (dimension.max != std::numeric_limits<int64_t>::max()) {
      range.max = dimension.max;
    }
    const auto& input = example.at(dimension.input);
    auto sizes = sizes_to_try(range);
    const auto large = large_size(input, dimension.dimension, range);
    if (large > sizes.back()) sizes.push_back(large);
    all.push_back({dimension.name, fmt::format("s{}", all.size()), range,
                   input.size(dimension.dimension), sizes});
  }
  return all;
}

using Run = std::vector<int64_t>;  // sizes by dynamic dimension

/// The example's sizes, then each dimension alone at all of its sizes, then pairs and triples at a
/// few: enough to determine polynomials of degree 3.
std::vector<Run> runs_of(const std::vector<SampledDimension>& dimensions) {
  Run example;
  Run base;
  for (const auto& dimension : dimensions) {
    example.push_back(dimension.example);
    base.push_back(dimension.sizes.front());
  }
  std::vector<Run> runs{example, base};
  const auto size = [&](std::size_t dimension, std::size_t index) {
    const auto& sizes = dimensions[dimension].sizes;
    return sizes[std::min(index, sizes.size() - 1)];
  };
  for (std::size_t a = 0; a < dimensions.size(); ++a) {
    auto run = base;
    for (const auto alone : dimensions[a].sizes) {
      run[a] = alone;
      runs.push_back(run);
    }
    for (std::size_t b = 0; b < a; ++b) {
      for (const auto& [index_a, index_b] : {std::pair{1, 1}, {1, 3}, {3, 1}, {3, 4}}) {
        run = base;
        run[a] = size(a, static_cast<std::size_t>(index_a));
        run[b] = size(b, static_cast<std::size_t>(index_b));
        runs.push_back(run);
        for (std::size_t c = 0; c < b && index_a == 1; ++c) {
          auto three = run;
          three[c] = size(c, 2);
          runs.push_back(three);
        }
      }
    }
  }
  return runs;
}

/// Runs with each dimension at 1 if its range contains it, then all at 1. There squeeze removes
/// dimensions, slices are shorter and more tensors are contiguous. Strides of size-1 dimensions are
/// arbitrary.
std::vector<Run> runs_with_ones(const std::vector<SampledDimension>& dimensions,
                                const std::vector<Run>& runs) {
  std::vector<Run> at_one;
  auto all = runs.at(1);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i].range.min.value_or(1) > 1) continue;
    auto run = runs.at(1);
    run[i] = all[i] = 1;
    at_one.push_back(run);
  }
  if (at_one.size() > 1) at_one.push_back(all);
  return at_one;
}

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
  throw std::runtime_error(fmt::format(
      "{} has {} dimensions at the example's sizes and {} at others, expected a constant "
      "number of dimensions",
      name, meta.sizes.size(), tensor.dim()));
}

/// The values at `index` by run.
std::vector<int64_t> column(const std::vector<std::vector<int64_t>>& runs, std::size_t index) {
  std::vector<int64_t> values;
  for (const auto& run : runs) values.push_back(run.at(index));
  return values;
}

/// Symbolic expression of a size that was `values` in the runs.
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
      "a size or stride of the traced {} must be a polynomial of the dynamic sizes and of their "
      "quotients, found {} at the example's sizes and {} at others{}",
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
        dimensions_(dimensions_of(example, dynamic)),
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
          fmt::format("the traced program rejects {}, which are within min and max of the dynamic "
                      "dimensions: {}",
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

/// Metadata with symbolic expressions: sizes fitted to the values of all runs (`sizes`), strides to
/// runs without sizes of 1 (`strides`).
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
    // Adds the quotients among the sizes as variables of the strides.
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
