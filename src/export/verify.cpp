#include "export/verify.h"

#include "export/compare.h"
#include "export/operator_cost.h"
#include "export/resize.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"
#include "export/trial_sizes.h"
#include "export/trial_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

namespace attend {
namespace {

using SizesByName = std::map<std::string, int64_t>;

/// Inputs of one comparison: the example inputs resized by `resize`, with the given kind of values.
struct Trial {
  SizesByName sizes = {};
  int64_t shift = 0;
  Values values = Values::as_in_example;
};

std::vector<torch::Tensor> inputs_of(const Trial& trial, const std::vector<torch::Tensor>& example,
                                     const ExportOptions& options) {
  auto inputs = resize(example, options.dynamic, trial.sizes, trial.shift);
  for (auto& input : inputs) input = with_values(input, trial.values);
  return inputs;
}

/// Returns true if a value of `inputs` differs from `example`, which has the same shapes.
bool has_other_values(const std::vector<torch::Tensor>& inputs,
                      const std::vector<torch::Tensor>& example) {
  return !std::equal(inputs.begin(), inputs.end(), example.begin(),
                     [](const torch::Tensor& one, const torch::Tensor& other) {
                       return !has_arithmetic(one) || one.equal(other);
                     });
}

/// Returns copies of the inputs, since a call may mutate its inputs.
std::vector<torch::Tensor> copies_of(const std::vector<torch::Tensor>& inputs) {
  std::vector<torch::Tensor> copies;
  for (const auto& input : inputs) copies.push_back(input.clone());
  return copies;
}

/// Returns the outputs of the module, or nullopt if it rejects the values.
std::optional<std::vector<torch::Tensor>> expected_of(const Forward& forward, const Trial& trial,
                                                      const std::vector<torch::Tensor>& inputs) {
  try {
    return forward(inputs).tensors;
  } catch (const std::exception& error) {
    if (trial.values != Values::as_in_example) return std::nullopt;
    throw module_rejects(inputs, error);
  }
}

/// Returns a message if two calls of the module with the same inputs return different outputs, else
/// an empty string.
std::string nondeterminism_message(ExportGuard& guard, const Forward& forward,
                                   const std::vector<torch::Tensor>& inputs) {
  const auto one = forward(copies_of(inputs)).tensors;
  guard.restore();
  const auto other = forward(copies_of(inputs)).tensors;
  guard.restore();
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    try {
      compare(one[i], other[i], /*tolerance=*/0.0, "");
    } catch (const std::runtime_error&) {
      return "; the module is not deterministic: it draws random numbers or has state that is not "
             "a buffer";
    }
  }
  return "";
}

/// Increments of the example's sizes. In each comparison, up to three dimensions have different
/// increments, so that swapped dimensions are detected. Over all comparisons, each dimension has
/// each increment.
constexpr std::array<int64_t, 3> kIncrements{1, 2, 3};

int64_t increased(int64_t size, int64_t increment, const DynamicDimension& dynamic) {
  const bool fits = increment <= dynamic.max - size;
  return fits ? size + increment : std::max(dynamic.min, size - increment);
}

class Verification {
 public:
  Verification(ExportGuard& guard, const torch::nn::Module& module, const Forward& exported,
               const Forward& forward, const std::vector<torch::Tensor>& example_inputs,
               const std::set<int64_t>& constants, const ExportOptions& options)
      : guard_(guard),
        module_(module),
        exported_(exported),
        forward_(forward),
        example_inputs_(example_inputs),
        constants_(constants),
        options_(options),
        dimensions_(distinct(options.dynamic)),
        example_sizes_(sizes_of(example_inputs, options.dynamic)) {}

  ExportReport run() && {
    example_cost_ = compare({.sizes = example_sizes_});
    for (const auto values : kOtherValues) {
      compare({.sizes = example_sizes_, .values = values});
    }
    compare_near_sizes();
    for (const auto& [name, size] : example_sizes_) costs_[name][size] = example_cost_;
    for (const auto& dimension : dimensions_) compare_growing_sizes(dimension);
    compare_other_sizes();
    guard_.restore();
    return std::move(report_);
  }

 private:
  /// Largest output of an operator in a comparison. Needs several times this memory.
  static constexpr double kMaxBytes = 512.0 * 1024 * 1024;
  /// Elements that all operators together compute in `compare_other_sizes`: about a second.
  static constexpr int64_t kMaxElements = int64_t{1} << 28;

  /// Compares at the minimum sizes and at slightly larger sizes than the example's.
  void compare_near_sizes() {
    if (dimensions_.empty()) return;
    Trial smallest;
    std::vector<Trial> larger(kIncrements.size(), {.shift = 1});
    for (const auto& dimension : dimensions_) {
      const auto index = smallest.sizes.size();
      const auto size = example_sizes_.at(dimension.name);
      smallest.sizes[dimension.name] = dimension.min;
      for (std::size_t i = 0; i < larger.size(); ++i) {
        const auto increment = kIncrements[(i + index) % kIncrements.size()];
        larger[i].sizes[dimension.name] = increased(size, increment, dimension);
      }
    }
    compare(smallest);
    for (const auto& trial : larger) compare(trial);
  }

  /// Compares at growing sizes of one dimension, until the memory limit. Records the costs.
  void compare_growing_sizes(const DynamicDimension& dimension) {
    auto& costs = costs_.at(dimension.name);
    for (const auto size : trial_sizes(dimension).growing) {
      auto sizes = example_sizes_;
      sizes[dimension.name] = size;
      if (predicted_bytes(sizes) > kMaxBytes) return;
      costs[size] = compare({.sizes = std::move(sizes), .shift = 2});
    }
  }

  /// Compares at all maximum sizes together, around the constants of the graph and at random sizes,
  /// as far as memory and time allow.
  void compare_other_sizes() {
    std::vector<SizesByName> all(1);
    for (const auto& dimension : dimensions_) {
      all.front()[dimension.name] = costs_.at(dimension.name).rbegin()->first;
    }
    for (const auto& dimension : dimensions_) {
      for (const auto size : trial_sizes(dimension).others) {
        auto sizes = example_sizes_;
        sizes[dimension.name] = size;
        all.push_back(std::move(sizes));
      }
    }
    int64_t elements = 0;
    for (const auto& sizes : all) {
      if (verified_.count(sizes) > 0 || predicted_bytes(sizes) > kMaxBytes) continue;
      elements += compare({.sizes = sizes, .shift = 3}).elements;
      if (elements > kMaxElements) return;
    }
  }

  TrialSizes trial_sizes(const DynamicDimension& dimension) const {
    return attend::trial_sizes(dimension, example_sizes_.at(dimension.name), constants_);
  }

  /// Returns an estimate of the largest output of an operator: the product of how much each
  /// dimension alone increases the output of the example.
  double predicted_bytes(const SizesByName& sizes) const {
    const auto bytes_of = [](const OperatorCost& cost) {
      return static_cast<double>(std::max<int64_t>(1, cost.largest_bytes));
    };
    auto bytes = bytes_of(example_cost_);
    for (const auto& [name, size] : sizes) {
      const auto& costs = costs_.at(name);
      const auto measured = costs.lower_bound(size);
      if (measured != costs.end()) {
        bytes *= bytes_of(measured->second) / bytes_of(example_cost_);
        continue;
      }
      // Scores of attention grow with the square of the size.
      const auto& [largest, cost] = *costs.rbegin();
      const auto growth = static_cast<double>(size) / static_cast<double>(largest);
      bytes *= growth * growth * bytes_of(cost) / bytes_of(example_cost_);
    }
    return bytes;
  }

  /// Compares module and exported program. Returns the cost of the module's operators.
  OperatorCost compare(const Trial& trial) {
    const auto inputs = inputs_of(trial, example_inputs_, options_);
    const auto shapes = shapes_text(inputs);
    OperatorCost cost;
    const auto mutated = copies_of(inputs);
    const auto expected = [&] {
      const OperatorCostScope scope(cost);
      return expected_of(forward_, trial, mutated);
    }();
    if (!expected) return cost;
    TORCH_CHECK_VALUE(options_.output_names.size() <= expected->size(), "found ",
                      options_.output_names.size(), " output_names, expected at most ",
                      expected->size(), ", the number of outputs");
    try {
      compare(inputs, mutated, *expected, shapes);
    } catch (const std::exception& error) {
      guard_.restore();  // throws if forward mutates parameters or constants
      const auto specialization = find_specialization(module_, forward_, example_inputs_, inputs);
      if (specialization) throw with_specialization(error, *specialization);
      throw std::runtime_error(short_message(error) +
                               nondeterminism_message(guard_, forward_, inputs));
    }
    add_to_report(trial, inputs);
    return cost;
  }

  void compare(const std::vector<torch::Tensor>& inputs, const std::vector<torch::Tensor>& mutated,
               const std::vector<torch::Tensor>& expected, const std::string& shapes) {
    const auto copies = copies_of(inputs);
    const auto found = exported_(copies).tensors;
    if (found.size() != expected.size()) {
      throw std::runtime_error(fmt::format("the exported program returns {} outputs, expected {}",
                                           found.size(), expected.size()));
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      report_.max_abs_diff = std::max(
          report_.max_abs_diff, attend::compare(found[i], expected[i], options_.tolerance, shapes));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      attend::compare(copies[i], mutated[i], options_.tolerance,
                      fmt::format("input {} after the call with {}", i, shapes));
    }
  }

  void add_to_report(const Trial& trial, const std::vector<torch::Tensor>& inputs) {
    if (trial.values != Values::as_in_example) {
      if (has_other_values(inputs, example_inputs_)) report_.verified_other_values = true;
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
  const torch::nn::Module& module_;
  const Forward& exported_;
  const Forward& forward_;
  const std::vector<torch::Tensor>& example_inputs_;
  const std::set<int64_t>& constants_;
  const ExportOptions& options_;
  std::vector<DynamicDimension> dimensions_;
  SizesByName example_sizes_;
  OperatorCost example_cost_;
  /// By the name of a dimension: the costs at sizes of this dimension; the others have the
  /// example's sizes.
  std::map<std::string, std::map<int64_t, OperatorCost>> costs_;
  std::set<SizesByName> verified_;
  ExportReport report_;
};

}  // namespace

ExportReport verify(ExportGuard& guard, const torch::nn::Module& module, const Forward& exported,
                    const Forward& forward, const std::vector<torch::Tensor>& example_inputs,
                    const std::set<int64_t>& constants, const ExportOptions& options) {
  return Verification(guard, module, exported, forward, example_inputs, constants, options).run();
}

}  // namespace attend
