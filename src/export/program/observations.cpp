#include "export/program/observations.h"

#include "export/cost_model.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"
#include "export/trial_values.h"
#include "program/allowed_operators.h"
#include "program/schema_enums.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace attend::program {
namespace {

constexpr uint64_t kSeed = 2;  // of random sizes; the verification uses others

void check_rank(const std::string& name, std::size_t rank, const TensorMeta& meta) {
  if (meta.sizes.size() == rank) return;
  throw std::runtime_error(
      fmt::format("the number of dimensions of the traced tensor '{}' must be constant, found {} "
                  "at the example's sizes and {} at other sizes or values",
                  name, meta.sizes.size(), rank));
}

}  // namespace

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

Observations::Observations(const TracedProgram& traced)
    : program_(traced.program),
      example_(traced.trace.method.example_inputs),
      dynamic_(traced.trace.method.dynamic),
      dimensions_(scheduled_dimensions(example_, dynamic_, traced.trace.integers, kSeed)),
      runner_(traced.program, traced.weights, example_.front().device(),
              operators_called_by(traced.program)) {
  std::erase_if(dimensions_, [](const auto& dimension) { return dimension.symbol.empty(); });
  const auto sizes = fitting_sizes(dimensions_);
  observe(resize(example_, dynamic_, sizes.near.front()),
          [&](const std::string& name, const torch::Tensor& tensor) {
            observations_[name].meta = static_meta(tensor);
          });
  auto tensors = program_.tensors;  // of the weights
  for (const auto& [name, observation] : observations_) tensors[name] = observation.meta;
  data_dependent_ = data_dependent_sizes(program_, tensors);
  for (const auto& run : sizes.near) record(run, layouts_of(resize(example_, dynamic_, run)));
  record_far_runs(sizes.far);
  num_regular_runs_ = runs_.size();
  for (const auto& run : sizes.below_2) record(run, layouts_of(resize(example_, dynamic_, run)));
  record_other_values();
  record_smaller_sizes();
}

std::vector<std::size_t> Observations::fitted() const {
  constexpr int64_t kSmall = 1024;
  const auto is_small = [&](const SizesByName& run) {
    return std::all_of(run.begin(), run.end(), [&](const auto& size) {
      return size.second <= std::max(kSmall, 4 * runs_.at(1).at(size.first));
    });
  };
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < num_regular_runs_; ++i) {
    if (is_small(runs_[i])) indices.push_back(i);
  }
  return indices;
}

/// Records runs, but omits those that are predicted to need too much memory or time.
void Observations::record_far_runs(const std::vector<SizesByName>& runs) {
  std::vector<Layout> layouts;
  const auto run_at = [&](const SizesByName& run) {
    OperatorCost cost;
    const auto inputs = resize(example_, dynamic_, run);
    const OperatorCostGuard guard(cost);
    layouts = layouts_of(inputs);
    cost.bytes = std::max(cost.bytes, bytes_of(inputs));
    return cost;
  };
  RunLoop loop(runs_.at(1), {.bytes = int64_t{64} << 20, .elements = int64_t{1} << 28}, run_at);
  for (const auto& run : runs) {
    if (loop.run_if_affordable(run)) record(run, layouts);
  }
}

/// Records runs with other values of the inputs, since sizes may depend on the values.
void Observations::record_other_values() {
  for (const auto values : kOtherValues) {
    std::vector<torch::Tensor> inputs;
    for (const auto& input : example_) inputs.push_back(with_values(input, values).clone());
    record_if_accepted(inputs);
  }
}

/// Records runs with small data-dependent sizes, since the values that the exporter tries may never
/// select so few elements. A tensor is shortened if its data-dependent size exceeds a maximum. In
/// each of the first five runs, all data-dependent sizes have the same maximum (0, 1, 2, 3 or 5).
/// In the last two runs, sizes of different origins (see `DataDependentSize`) have different
/// maxima. Since the tried values may select no elements at all, a size of 0 is increased to the
/// maximum.
void Observations::record_smaller_sizes() {
  if (data_dependent_.empty()) return;
  for (const auto& sizes : {std::pair{0, 0}, {1, 0}, {2, 0}, {3, 0}, {5, 0}, {0, 1}, {2, 1}}) {
    const auto least = sizes.first, step = sizes.second;
    std::map<std::string, int64_t> limits;  // by origin
    const auto shorten = [&](const std::string& name, const torch::Tensor& tensor) {
      for (int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
        const auto found = data_dependent_.find({name, static_cast<std::size_t>(dimension)});
        if (found == data_dependent_.end() || !found->second.depends_on_inputs) continue;
        const auto next = least + step * static_cast<int64_t>(limits.size());
        const auto limit = limits.try_emplace(found->second.origin, next).first->second;
        if (tensor.size(dimension) > limit) {
          tensor.set_data(tensor.narrow(dimension, 0, limit).clone());
        } else if (tensor.size(dimension) == 0) {  // adds zeros, which are valid indices
          auto sizes = tensor.sizes().vec();
          sizes[static_cast<std::size_t>(dimension)] = limit;
          tensor.set_data(tensor.new_zeros(sizes));
        }
      }
    };
    record_if_accepted(copies_of(example_), shorten);
  }
}

void Observations::record(const SizesByName& run, const std::vector<Layout>& layouts) {
  runs_.push_back(run);
  for (const auto& [name, sizes, strides, is_contiguous] : layouts) {
    auto& observation = observations_.at(name);
    check_rank(name, sizes.size(), observation.meta);
    if (observation.meta.is_contiguous != is_contiguous) observation.meta.is_contiguous.reset();
    observation.sizes.push_back(sizes);
    observation.strides.push_back(strides);
  }
}

/// Records a run at the example's sizes, unless the program throws. `change`: see `layouts_of`.
void Observations::record_if_accepted(const std::vector<torch::Tensor>& inputs,
                                      const Recorder& change) {
  std::vector<Layout> layouts;
  try {
    layouts = layouts_of(inputs, change);
  } catch (const std::exception&) {
    return;
  }
  record(runs_.front(), layouts);
}

/// Runs the program and returns the layouts of its tensors. `change` may change a tensor before
/// later operators use it.
std::vector<Observations::Layout> Observations::layouts_of(const std::vector<torch::Tensor>& inputs,
                                                           const Recorder& change) const {
  std::vector<Layout> layouts;
  observe(inputs, [&](const std::string& name, const torch::Tensor& tensor) {
    if (change) change(name, tensor);
    auto strides = tensor.strides().vec();
    strides.push_back(tensor.storage_offset());
    layouts.push_back({name, tensor.sizes().vec(), strides, tensor.is_contiguous()});
  });
  return layouts;
}

void Observations::observe(const std::vector<torch::Tensor>& inputs,
                           const Recorder& recorder) const {
  std::size_t next = 0;
  for (const auto& input : program_.inputs) {
    if (input.kind == InputKind::user) recorder(input.name, inputs.at(next++));
  }
  try {
    runner_.run(inputs, [&](const std::string& name, const c10::IValue& value) {
      if (value.isTensor()) recorder(name, value.toTensor());
    });
  } catch (const c10::Error& error) {
    throw WrongForInputs(
        fmt::format("the traced program rejects {}, although all sizes are within min and max of "
                    "the dynamic dimensions: {}",
                    shapes_text(inputs), short_message(error)),
        inputs);
  }
}

}  // namespace attend::program
