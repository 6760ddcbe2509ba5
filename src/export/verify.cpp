#include "export/verify.h"

#include "export/compare.h"
#include "export/resize.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace attend {
namespace {

enum class Values { as_in_example, mirrored, one_more, one_less };

/// Inputs of one comparison: the example inputs resized by `resize`, with the given kind of values.
struct TrialInputs {
  std::map<std::string, int64_t> sizes = {};
  int64_t shift = 0;
  Values values = Values::as_in_example;
};

/// Increments of the example's sizes. In each comparison, up to three dimensions have different
/// increments, so that swapped dimensions are detected. Over all comparisons, each dimension has
/// each increment.
constexpr std::array<int64_t, 3> kIncrements{1, 2, 3};
constexpr int64_t kLargeIncrement = 100;
constexpr int64_t kLargestSize = 4096;  // larger sizes are slow and detect no further errors

int64_t increased(int64_t size, int64_t increment, const DynamicDimension& dynamic) {
  const bool fits = increment <= dynamic.max - size;
  return fits ? size + increment : std::max(dynamic.min, size - increment);
}

/// Returns the inputs to compare: the example inputs, then inputs with other values, which detect
/// that forward reads values with item(). If there are dynamic dimensions, inputs of other sizes
/// follow: all dimensions at their minimum, three sets of increased sizes, and, for each dimension,
/// inputs in which only this dimension is large. A large dimension has its maximum size or, if the
/// maximum exceeds kLargestSize, the example's size + kLargeIncrement. Inputs with several large
/// dimensions may not fit into memory.
std::vector<TrialInputs> trial_inputs(const std::vector<torch::Tensor>& example_inputs,
                                      const ExportOptions& options) {
  const TrialInputs example{.sizes = sizes_of(example_inputs, options.dynamic)};
  TrialInputs smallest;
  std::vector<TrialInputs> larger(kIncrements.size(), {.shift = 1});
  std::vector<TrialInputs> largest;
  for (const auto& dynamic : distinct(options.dynamic)) {
    const auto index = smallest.sizes.size();
    const auto size = example.sizes.at(dynamic.name);
    smallest.sizes[dynamic.name] = dynamic.min;
    for (std::size_t i = 0; i < larger.size(); ++i) {
      const auto increment = kIncrements[(i + index) % kIncrements.size()];
      larger[i].sizes[dynamic.name] = increased(size, increment, dynamic);
    }
    const auto large = std::min(size + kLargeIncrement, dynamic.max);
    largest.push_back({.sizes = example.sizes, .shift = 2});
    largest.back().sizes[dynamic.name] = dynamic.max <= kLargestSize ? dynamic.max : large;
  }
  std::vector<TrialInputs> trials{example};
  for (const auto values : {Values::mirrored, Values::one_more, Values::one_less}) {
    trials.push_back({.sizes = example.sizes, .values = values});
  }
  if (options.dynamic.empty()) return trials;
  trials.push_back(smallest);
  trials.insert(trials.end(), larger.begin(), larger.end());
  trials.insert(trials.end(), largest.begin(), largest.end());
  return trials;
}

/// Returns false for dtypes that few operators support. Inputs of these dtypes always have the
/// values of the example.
bool has_arithmetic(const torch::Tensor& input) {
  const auto dtype = input.scalar_type();
  return !input.is_complex() && !c10::isFloat8Type(dtype) && !c10::isBarebonesUnsignedType(dtype);
}

/// Returns a tensor of the same shape with other values. With `Values::mirrored`, integers stay in
/// the range of the example's values, since the module may reject others.
torch::Tensor with_other_values(const torch::Tensor& input, Values values) {
  if (input.numel() == 0 || !has_arithmetic(input)) return input;
  if (input.scalar_type() == torch::kBool) return input.logical_not();
  if (values == Values::one_less) {
    const bool has_room = !input.is_floating_point() && input.min().item<int64_t>() > 0;
    return has_room ? input - 1 : input;
  }
  if (values == Values::one_more) {
    // On a GPU, integers are not increased: an index out of range would make the CUDA context
    // unusable for the rest of the process.
    return input.is_cuda() && !input.is_floating_point() ? input : input + 1;
  }
  return input.is_floating_point() ? -input : input.max() + input.min() - input;
}

std::vector<torch::Tensor> inputs_of(const TrialInputs& trial,
                                     const std::vector<torch::Tensor>& example,
                                     const ExportOptions& options) {
  auto inputs = resize(example, options.dynamic, trial.sizes, trial.shift);
  if (trial.values == Values::as_in_example) return inputs;
  for (auto& input : inputs) input = with_other_values(input, trial.values);
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
std::optional<std::vector<torch::Tensor>> expected_of(const Forward& forward,
                                                      const TrialInputs& trial,
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

}  // namespace

ExportReport verify(ExportGuard& guard, const torch::nn::Module& module, const Forward& exported,
                    const Forward& forward, const std::vector<torch::Tensor>& example_inputs,
                    const ExportOptions& options) {
  ExportReport report;
  for (const auto& trial : trial_inputs(example_inputs, options)) {
    const auto inputs = inputs_of(trial, example_inputs, options);
    const auto shapes = shapes_text(inputs);
    const auto mutated = copies_of(inputs);
    const auto expected = expected_of(forward, trial, mutated);
    if (!expected) continue;
    TORCH_CHECK_VALUE(options.output_names.size() <= expected->size(), "found ",
                      options.output_names.size(), " output_names, expected at most ",
                      expected->size(), ", the number of outputs");
    try {
      const auto copies = copies_of(inputs);
      const auto found = exported(copies).tensors;
      if (found.size() != expected->size()) {
        throw std::runtime_error(fmt::format("the exported program returns {} outputs, expected {}",
                                             found.size(), expected->size()));
      }
      for (std::size_t i = 0; i < found.size(); ++i) {
        report.max_abs_diff = std::max(
            report.max_abs_diff, compare(found[i], expected->at(i), options.tolerance, shapes));
      }
      for (std::size_t i = 0; i < inputs.size(); ++i) {  // forward may mutate its inputs
        compare(copies[i], mutated[i], options.tolerance,
                fmt::format("input {} after the call with {}", i, shapes));
      }
    } catch (const std::exception& error) {
      guard.restore();  // throws if forward mutates parameters or constants
      const auto specialization = find_specialization(module, forward, example_inputs, inputs);
      if (specialization) throw with_specialization(error, *specialization);
      throw std::runtime_error(short_message(error) +
                               nondeterminism_message(guard, forward, inputs));
    }
    if (trial.values != Values::as_in_example && has_other_values(inputs, example_inputs)) {
      report.verified_other_values = true;
    }
    const auto shape = inputs.front().sizes().vec();
    auto& verified = report.verified_shapes;
    if (std::find(verified.begin(), verified.end(), shape) == verified.end()) {
      verified.push_back(shape);
    }
  }
  guard.restore();
  return report;
}

}  // namespace attend
