#include "export/prove.h"

#include "export/frozen_size.h"
#include "export/resize.h"
#include "export/shape_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace attend {
namespace {

/// Throws std::runtime_error; returns the largest difference.
double compare(const torch::Tensor& found, const torch::Tensor& expected, double tolerance,
               const std::string& where) {
  if (found.sizes() != expected.sizes()) {
    throw std::runtime_error(fmt::format("the exported file returns shape {} for {}, the module {}",
                                         shape_text(found), where, shape_text(expected)));
  }
  if (found.scalar_type() != expected.scalar_type()) {
    throw std::runtime_error(fmt::format("the exported file returns {} for {}, the module {}",
                                         c10::toString(found.scalar_type()), where,
                                         c10::toString(expected.scalar_type())));
  }
  if (found.numel() == 0) return 0.0;
  const auto exact = expected.to(torch::kDouble);
  // What both give alike is no difference: infinities too, and where both are NaN.
  const auto alike = (found == expected).logical_or(found.isnan().logical_and(expected.isnan()));
  const auto difference = (found.to(torch::kDouble) - exact).abs().masked_fill(alike, 0.0);
  // Written so that a NaN of one of them fails, too.
  if (!(difference <= tolerance * (1 + exact.abs())).logical_or(alike).all().item<bool>()) {
    throw std::runtime_error(
        fmt::format("the exported file differs from the module by {:.3g} for {}, expected at most "
                    "{:.3g}",
                    difference.max().item<double>(), where, tolerance));
  }
  return difference.max().item<double>();
}

enum class Values { as_in_example, mirrored, one_more, one_less };

/// Inputs of one run: sizes, from which place on the example's values are repeated, and what
/// becomes of these.
struct Trial {
  std::map<std::string, int64_t> sizes = {};
  int64_t shift = 0;
  Values values = Values::as_in_example;
};

/// How much larger sizes are than the example's, of the dimensions in turn: those of one trial
/// differ, so that no dimension is taken for another, and each gets all remainders of small
/// numbers.
constexpr std::array<int64_t, 3> kMore{1, 2, 3};
constexpr int64_t kFar = 100;
constexpr int64_t kLargest = 4096;  // what is larger takes long, and shows no more

int64_t grown(int64_t size, int64_t more, const DynamicDimension& dynamic) {
  const bool fits = more <= dynamic.greatest - size;
  return fits ? size + more : std::max(dynamic.least, size - more);
}

/// The example, then with other values, since a forward may have read some into numbers of C++,
/// which a trace keeps, then the least sizes, some larger ones, and for each dimension the
/// greatest, one after the other, lest the inputs are larger than memory.
std::vector<Trial> trials_of(const std::vector<torch::Tensor>& example_inputs,
                             const ExportOptions& options) {
  const Trial example{.sizes = sizes_of(example_inputs, options.dynamic)};
  Trial least;
  std::vector<Trial> larger(kMore.size(), {.shift = 1});
  std::vector<Trial> greatest;
  for (const auto& dynamic : distinct(options.dynamic)) {
    const auto place = least.sizes.size();
    const auto size = example.sizes.at(dynamic.name);
    least.sizes[dynamic.name] = dynamic.least;
    for (std::size_t i = 0; i < larger.size(); ++i) {
      larger[i].sizes[dynamic.name] = grown(size, kMore[(i + place) % kMore.size()], dynamic);
    }
    const auto far = std::min(size + kFar, dynamic.greatest);
    greatest.push_back({.sizes = example.sizes, .shift = 2});
    greatest.back().sizes[dynamic.name] = dynamic.greatest <= kLargest ? dynamic.greatest : far;
  }
  std::vector<Trial> trials{example};
  for (const auto values : {Values::mirrored, Values::one_more, Values::one_less}) {
    trials.push_back({.sizes = example.sizes, .values = values});
  }
  if (options.dynamic.empty()) return trials;
  trials.push_back(least);
  trials.insert(trials.end(), larger.begin(), larger.end());
  trials.insert(trials.end(), greatest.begin(), greatest.end());
  return trials;
}

/// Types that have little of it keep the example's values.
bool has_arithmetic(const torch::Tensor& input) {
  const auto dtype = input.scalar_type();
  return !input.is_complex() && !c10::isFloat8Type(dtype) && !c10::isBarebonesUnsignedType(dtype);
}

/// Mirrored, whole numbers stay within their bounds, which a module may ask for.
torch::Tensor with_other_values(const torch::Tensor& input, Values values) {
  if (input.numel() == 0 || !has_arithmetic(input)) return input;
  if (input.scalar_type() == torch::kBool) return input.logical_not();
  if (values == Values::one_less) {
    const bool has_room = !input.is_floating_point() && input.min().item<int64_t>() > 0;
    return has_room ? input - 1 : input;
  }
  if (values == Values::one_more) {
    // The indices of a GPU that are out of range would end all use of it, not just this call.
    return input.is_cuda() && !input.is_floating_point() ? input : input + 1;
  }
  return input.is_floating_point() ? -input : input.max() + input.min() - input;
}

std::vector<torch::Tensor> inputs_of(const Trial& trial, const std::vector<torch::Tensor>& example,
                                     const ExportOptions& options) {
  auto inputs = resize(example, options.dynamic, trial.sizes, trial.shift);
  if (trial.values == Values::as_in_example) return inputs;
  for (auto& input : inputs) input = with_other_values(input, trial.values);
  return inputs;
}

/// Whether some value is another than the example's, which has inputs of the same sizes.
bool has_other_values(const std::vector<torch::Tensor>& inputs,
                      const std::vector<torch::Tensor>& example) {
  return !std::equal(inputs.begin(), inputs.end(), example.begin(),
                     [](const torch::Tensor& one, const torch::Tensor& other) {
                       return !has_arithmetic(one) || one.equal(other);
                     });
}

/// For a call, which may change them.
std::vector<torch::Tensor> copies_of(const std::vector<torch::Tensor>& inputs) {
  std::vector<torch::Tensor> copies;
  for (const auto& input : inputs) copies.push_back(input.clone());
  return copies;
}

/// The outputs of the module; nothing if it does not take the values.
std::optional<std::vector<torch::Tensor>> expected_of(const Forward& function, const Trial& trial,
                                                      const std::vector<torch::Tensor>& inputs,
                                                      const std::string& where) {
  try {
    return function(inputs).tensors;
  } catch (const std::exception& error) {
    if (trial.values != Values::as_in_example) return std::nullopt;
    throw std::runtime_error(fmt::format(
        "the module does not take {}, which the bounds of the dynamic dimensions allow: "
        "{}",
        where, reason_of(error)));
  }
}

/// "; ..." if calls of the module differ among themselves.
std::string reason_in_module(ExportGuard& scope, const Forward& function,
                             const std::vector<torch::Tensor>& inputs) {
  const auto one = function(copies_of(inputs)).tensors;
  scope.restore();
  const auto other = function(copies_of(inputs)).tensors;
  scope.restore();
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    try {
      compare(one[i], other[i], /*tolerance=*/0.0, "");
    } catch (const std::runtime_error&) {
      return "; the module itself gives something else when it is called again: it draws random "
             "numbers, or remembers in what is no buffer";
    }
  }
  return "";
}

}  // namespace

ExportReport prove(ExportGuard& scope, const torch::nn::Module& module, const Forward& file,
                   const Forward& function, const std::vector<torch::Tensor>& example_inputs,
                   const ExportOptions& options) {
  ExportReport report;
  for (const auto& trial : trials_of(example_inputs, options)) {
    const auto inputs = inputs_of(trial, example_inputs, options);
    const auto where = shapes_text(inputs);
    const auto expected = expected_of(function, trial, copies_of(inputs), where);
    if (!expected) continue;
    TORCH_CHECK_VALUE(options.output_names.size() <= expected->size(), "output_names (",
                      options.output_names.size(), ") must not be more than the outputs (",
                      expected->size(), ")");
    try {
      const auto found = file(copies_of(inputs)).tensors;
      if (found.size() != expected->size()) {
        throw std::runtime_error(fmt::format("the exported file gives {} outputs, the module {}",
                                             found.size(), expected->size()));
      }
      for (std::size_t i = 0; i < found.size(); ++i) {
        report.max_difference = std::max(
            report.max_difference, compare(found[i], expected->at(i), options.tolerance, where));
      }
    } catch (const std::exception& error) {
      scope.restore();  // or throws a better reason
      const auto frozen = find_frozen_size(module, function, example_inputs, inputs);
      if (frozen) throw explained(error, *frozen);
      throw std::runtime_error(reason_of(error) + reason_in_module(scope, function, inputs));
    }
    if (trial.values != Values::as_in_example && has_other_values(inputs, example_inputs)) {
      report.checked_other_values = true;
    }
    const auto shape = inputs.front().sizes().vec();
    auto& checked = report.checked_shapes;
    if (std::find(checked.begin(), checked.end(), shape) == checked.end()) checked.push_back(shape);
  }
  scope.restore();
  return report;
}

}  // namespace attend
