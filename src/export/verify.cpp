#include "export/verify.h"

#include "export/compare.h"
#include "export/cost_model.h"
#include "export/resize.h"
#include "export/rounding.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"
#include "export/trial_sizes.h"
#include "export/trial_values.h"
#include "ops/rng_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace attend {
namespace {

/// Inputs of one comparison: the example inputs resized by `resize`, with the given kind of values.
struct Trial {
  SizesByName sizes = {};
  int64_t shift = 0;  // shift of the example's values along the dynamic dimensions, see `resize`
  Values values = Values::as_in_example;
};

std::vector<torch::Tensor> inputs_of(const Trial& trial, const std::vector<torch::Tensor>& example,
                                     const ExportOptions& options) {
  auto inputs = resize(example, options.dynamic, trial.sizes, trial.shift);
  for (auto& input : inputs) input = with_values(input, trial.values);
  return inputs;
}

/// Returns true if a value differs between `inputs` and `example`, which have the same shapes.
/// Ignores inputs for which `supports_other_values` returns false.
bool has_other_values(const std::vector<torch::Tensor>& inputs,
                      const std::vector<torch::Tensor>& example) {
  return !std::equal(inputs.begin(), inputs.end(), example.begin(),
                     [](const torch::Tensor& one, const torch::Tensor& other) {
                       return !supports_other_values(one) || one.equal(other);
                     });
}

/// Returns the outputs of the module, and sets `cost` to the cost of the call. If the module throws
/// and the trial has the example's values, throws the error that `module_rejects` returns. If the
/// module throws and the trial has other values, restores the buffers of the module and returns
/// nullopt.
std::optional<std::vector<torch::Tensor>> expected_of(const torch::nn::Module& module,
                                                      const Forward& forward, const Trial& trial,
                                                      const std::vector<torch::Tensor>& inputs,
                                                      OperatorCost& cost) {
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers;  // each with a copy
  for (const auto& buffer : module.buffers()) {
    if (buffer.defined()) buffers.emplace_back(buffer, buffer.clone());
  }
  const OperatorCostGuard guard(cost);
  try {
    return forward(inputs).tensors;
  } catch (const std::exception& error) {
    if (trial.values == Values::as_in_example) throw module_rejects(inputs, error);
    for (auto& [buffer, copy] : buffers) buffer.copy_(copy);
    return std::nullopt;
  }
}

/// Returns the states of the generators from which a call with these inputs draws random numbers.
RngState rng_of(const std::vector<torch::Tensor>& inputs) {
  return rng_state(rng_devices(inputs.front().device()));
}

/// Returns a message if two calls of the module with the same inputs and the same random numbers
/// return different outputs, else an empty string.
std::string nondeterminism_message(ExportGuard& guard, const Forward& forward,
                                   const std::vector<torch::Tensor>& inputs) {
  const auto rng = rng_of(inputs);
  const auto one = forward(copies_of(inputs)).tensors;
  guard.restore();
  set_rng_state(rng);
  const auto other = forward(copies_of(inputs)).tensors;
  guard.restore();
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    try {
      compare(one[i], other[i], /*tolerance=*/0.0, "");
    } catch (const std::runtime_error&) {
      return "; the module is not deterministic: it has state that is not a buffer, or draws "
             "random numbers from generators other than LibTorch's default generator";
    }
  }
  return "";
}

/// Numbers by which `run_near_sizes` enlarges the example's sizes in three trials. In the first
/// trial, successive dimensions grow by 1, 2, 3, 1, ... In the second trial, the sequence begins
/// with 2; in the third trial, with 3. Dimensions grow by different numbers so that swapped
/// dimensions are detected.
constexpr std::array<int64_t, 3> kIncrements{1, 2, 3};

int64_t increased(int64_t size, int64_t increment, const DynamicDimension& dynamic) {
  const bool fits = increment <= dynamic.max - size;
  return fits ? size + increment : std::max(dynamic.min, size - increment);
}

/// A module and its exported program, which are compared.
struct Subject {
  const torch::nn::Module& module;
  const Forward& exported;
  const Forward& forward;
  const std::vector<torch::Tensor>& example_inputs;
  const std::set<int64_t>& integers;
  const ExportOptions& options;
};

class Verification {
 public:
  Verification(ExportGuard& guard, const Subject& subject)
      : guard_(guard),
        subject_(subject),
        dimensions_(distinct(subject.options.dynamic)),
        example_sizes_(sizes_of(subject.example_inputs, subject.options.dynamic)),
        costs_(example_sizes_, {}) {
    for (const auto& dimension : dimensions_) {
      trial_sizes_.push_back(
          trial_sizes(dimension, example_sizes_.at(dimension.name), subject.integers, kSeed));
      smallest_sizes_[dimension.name] = dimension.min;
    }
  }

  ExportReport run() && {
    const auto cost = run_trial({.sizes = example_sizes_});
    costs_ = CostModel(example_sizes_, cost);
    remaining_elements_ = std::max(kMaxElements, 2 * cost.elements);
    for (const auto values : kOtherValues) run_trial({.sizes = example_sizes_, .values = values});
    run_near_sizes();
    for (std::size_t i = 0; i < dimensions_.size(); ++i) run_growing_sizes(i);
    run_one_by_one(&TrialSizes::around_constants);
    run_one_by_one(&TrialSizes::others);
    run_largest_sizes();
    guard_.restore();
    report_.values_read = guard_.values_read();
    return std::move(report_);
  }

 private:
  /// Maximum memory of a tensor, and of all inputs and outputs together, in bytes. A comparison
  /// needs several times this memory.
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;
  /// Maximum number of elements that the operators of the module compute. In `run_growing_sizes`,
  /// the limit applies to each single trial, and only if the dimension has no maximum. After
  /// `run_growing_sizes`, the limit applies to the sum over all further trials. For this sum, the
  /// limit is at least twice the number of elements for the example inputs.
  static constexpr int64_t kMaxElements = int64_t{1} << 26;
  static constexpr uint64_t kSeed = 1;  // of random sizes
  /// A dimension does not grow further after a comparison that took more than this number of
  /// seconds of processor time. What is verified then does not depend on the load of the machine.
  static constexpr double kMaxSeconds = 4.0;

  /// Runs trials at three kinds of sizes. First, all dimensions have their minimum size. Then one
  /// dimension at a time has its minimum size, and the others have the example's sizes. Then each
  /// dimension is slightly larger than in the example, or slightly smaller if the larger size would
  /// exceed the maximum of the dimension.
  void run_near_sizes() {
    if (dimensions_.empty()) return;
    run_trial({.sizes = smallest_sizes_});
    for (const auto& dimension : dimensions_) {
      const auto sizes = with_size(dimension, dimension.min, example_sizes_);
      if (dimension.min < example_sizes_.at(dimension.name)) {
        costs_.add(dimension.name, dimension.min, run_trial({.sizes = sizes}));
      }
    }
    std::vector<Trial> larger(kIncrements.size(), {.shift = 1});
    for (const auto& dimension : dimensions_) {
      const auto index = larger.front().sizes.size();
      const auto size = example_sizes_.at(dimension.name);
      for (std::size_t i = 0; i < larger.size(); ++i) {
        const auto increment = kIncrements[(i + index) % kIncrements.size()];
        larger[i].sizes[dimension.name] = increased(size, increment, dimension);
      }
    }
    for (const auto& trial : larger) run_trial(trial);
  }

  /// Runs trials at growing sizes of one dimension. The other dimensions have the example's sizes
  /// or, if a trial would then exceed the limit of memory or elements, their smallest sizes. Stops
  /// if the trial would exceed a limit even with the smallest sizes, or after a trial that took
  /// more than kMaxSeconds.
  void run_growing_sizes(std::size_t index) {
    const auto& dimension = dimensions_[index];
    constexpr auto kUnlimited = std::numeric_limits<int64_t>::max();
    const auto max_elements = dimension.max == kUnlimited ? kMaxElements : kUnlimited;
    for (const auto size : trial_sizes_[index].growing) {
      const auto sizes = with_size(dimension, size, example_sizes_);
      const auto fewest = with_size(dimension, size, smallest_sizes_);
      const auto begin = std::clock();
      if (is_affordable(sizes, max_elements)) {
        costs_.add(dimension.name, size, run_trial({.sizes = sizes, .shift = 2}));
      } else if (is_affordable(fewest, max_elements)) {
        run_trial({.sizes = fewest, .shift = 2});
      } else {
        return;
      }
      const auto taken = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      if (taken > kMaxSeconds) return;
    }
  }

  /// Runs trials in which one dimension has a size from `list`. The other dimensions have the
  /// example's sizes or, if `run_if_affordable` omits that trial, their smallest sizes. Trials of
  /// different dimensions alternate.
  void run_one_by_one(std::vector<int64_t> TrialSizes::*list) {
    std::size_t count = 0;
    for (const auto& sizes : trial_sizes_) count = std::max(count, (sizes.*list).size());
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t d = 0; d < dimensions_.size(); ++d) {
        const auto& all = trial_sizes_[d].*list;
        if (i >= all.size()) continue;
        if (!run_if_affordable(with_size(dimensions_[d], all[i], example_sizes_))) {
          run_if_affordable(with_size(dimensions_[d], all[i], smallest_sizes_));
        }
      }
    }
  }

  /// Runs a trial in which each dimension has the largest size that `run_growing_sizes` verified
  /// while the other dimensions had the example's sizes. If there is no such size, the dimension
  /// has the example's size. Omits the trial if it would exceed `kMaxBytes` or
  /// `remaining_elements_`.
  void run_largest_sizes() {
    SizesByName sizes;
    for (const auto& dimension : dimensions_) {
      sizes[dimension.name] = costs_.largest(dimension.name);
    }
    run_if_affordable(sizes);
  }

  /// Runs a trial, unless the sizes are already verified. Returns false, without running the trial,
  /// if it would exceed `kMaxBytes` or `remaining_elements_`.
  bool run_if_affordable(const SizesByName& sizes) {
    if (verified_.count(sizes) > 0) return true;
    if (!is_affordable(sizes, remaining_elements_)) return false;
    remaining_elements_ -= run_trial({.sizes = sizes, .shift = 3}).elements;
    return true;
  }

  bool is_affordable(const SizesByName& sizes, int64_t max_elements) const {
    const auto predicted = costs_.predict(sizes);
    return predicted.bytes <= kMaxBytes && predicted.elements <= max_elements;
  }

  static SizesByName with_size(const DynamicDimension& dimension, int64_t size,
                               SizesByName others) {
    others[dimension.name] = size;
    return others;
  }

  /// Compares the outputs of the exported program with those of the module. Returns the cost of the
  /// module's forward.
  OperatorCost run_trial(const Trial& trial) {
    const auto& options = subject_.options;
    const auto inputs = inputs_of(trial, subject_.example_inputs, options);
    const auto shapes = shapes_text(inputs);
    OperatorCost cost;
    const auto mutated = copies_of(inputs);
    const auto rng = rng_of(inputs);
    const auto expected = expected_of(subject_.module, subject_.forward, trial, mutated, cost);
    if (!expected) return cost;
    cost.bytes = std::max(cost.bytes, bytes_of(inputs) + bytes_of(*expected));
    TORCH_CHECK_VALUE(options.output_names.size() <= expected->size(), "found ",
                      options.output_names.size(), " output_names, expected at most ",
                      expected->size(), ", the number of outputs");
    set_rng_state(rng);  // the exported program draws the same random numbers
    try {
      compare_outputs(inputs, mutated, *expected, shapes);
    } catch (const std::exception& error) {
      guard_.restore();  // throws if forward mutates parameters or constants
      const auto specialization =
          find_specialization(subject_.module, subject_.forward, subject_.example_inputs, inputs);
      if (specialization) throw with_specialization(error, *specialization);
      throw std::runtime_error(short_message(error) +
                               nondeterminism_message(guard_, subject_.forward, inputs));
    }
    add_to_report(trial, inputs);
    return cost;
  }

  /// Runs the exported program. If the program throws, adds the shapes of the inputs to the
  /// message.
  std::vector<torch::Tensor> run_exported(const std::vector<torch::Tensor>& inputs,
                                          const std::string& shapes) const {
    try {
      return subject_.exported(inputs).tensors;
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("for {}: {}", shapes, short_message(error)));
    }
  }

  void compare_outputs(const std::vector<torch::Tensor>& inputs,
                       const std::vector<torch::Tensor>& mutated,
                       const std::vector<torch::Tensor>& expected, const std::string& shapes) {
    const auto copies = copies_of(inputs);
    const auto found = run_exported(copies, shapes);
    if (found.size() != expected.size()) {
      throw std::runtime_error(
          fmt::format("for {}: the exported program returns {} outputs, expected {}", shapes,
                      found.size(), expected.size()));
    }
    const auto tolerance = subject_.options.tolerance;
    std::vector<double> rounding;  // of each output
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto rounding_of_output = [&] {
        if (rounding.empty()) {
          rounding = rounding_of_outputs(subject_.module, subject_.forward, inputs);
        }
        return rounding.at(i);
      };
      report_.max_abs_diff = std::max(
          report_.max_abs_diff,
          compare(found[i], expected[i], tolerance,
                  fmt::format("for {}, the exported program returns", shapes), rounding_of_output));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {  // forward may mutate its inputs
      compare(copies[i], mutated[i], tolerance,
              fmt::format("for {}, the exported program changes input {} in place to", shapes, i));
    }
  }

  void add_to_report(const Trial& trial, const std::vector<torch::Tensor>& inputs) {
    if (trial.values != Values::as_in_example) {
      if (has_other_values(inputs, subject_.example_inputs)) report_.verified_other_values = true;
      return;
    }
    if (!verified_.insert(trial.sizes).second) return;
    ++report_.num_verified_shapes;
    for (const auto& [name, size] : trial.sizes) {
      auto& range = report_.verified_sizes.try_emplace(name, SizeRange{size, size}).first->second;
      range = {std::min(range.min, size), std::max(range.max, size)};
    }
  }

  ExportGuard& guard_;
  Subject subject_;
  std::vector<DynamicDimension> dimensions_;
  std::vector<TrialSizes> trial_sizes_;  // in the order of `dimensions_`
  SizesByName example_sizes_;
  SizesByName smallest_sizes_;
  CostModel costs_;
  int64_t remaining_elements_ = 0;
  std::set<SizesByName> verified_;
  ExportReport report_;
};

}  // namespace

ExportReport verify(ExportGuard& guard, const torch::nn::Module& module, const Forward& exported,
                    const Forward& forward, const std::vector<torch::Tensor>& example_inputs,
                    const std::set<int64_t>& integers, const ExportOptions& options) {
  return Verification(guard, {module, exported, forward, example_inputs, integers, options}).run();
}

}  // namespace attend
