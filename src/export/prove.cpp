#include "export/prove.h"

#include "export/frozen_size.h"
#include "export/resize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attend {
namespace {

std::string shape_of(const torch::Tensor& tensor) {
  return fmt::format("({})", fmt::join(tensor.sizes(), ", "));
}

/// Without the trace of calls that LibTorch's errors end with.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Throws std::runtime_error; returns the largest difference.
double compare(const torch::Tensor& found, const torch::Tensor& expected, double tolerance,
               const std::string& where) {
  if (found.sizes() != expected.sizes()) {
    throw std::runtime_error(fmt::format("the exported file returns shape {} for {}, the module {}",
                                         shape_of(found), where, shape_of(expected)));
  }
  if (found.scalar_type() != expected.scalar_type()) {
    throw std::runtime_error(fmt::format("the exported file returns {} for {}, the module {}",
                                         c10::toString(found.scalar_type()), where,
                                         c10::toString(expected.scalar_type())));
  }
  if (found.numel() == 0) return 0.0;
  const auto exact = expected.to(torch::kDouble);
  // What both give alike is no difference, infinities too.
  const auto difference =
      (found.to(torch::kDouble) - exact).abs().masked_fill(found == expected, 0.0);
  // Written so that a NaN fails, too.
  if (!(difference <= tolerance * (1 + exact.abs())).all().item<bool>()) {
    throw std::runtime_error(
        fmt::format("the exported file differs from the module by {:.3g} for {}, expected at most "
                    "{:.3g}",
                    difference.max().item<double>(), where, tolerance));
  }
  return difference.max().item<double>();
}

/// Sizes of the dynamic dimensions: the example's, the least, and more than the example's.
std::vector<std::map<std::string, int64_t>> sizes_to_try(
    const std::vector<torch::Tensor>& example_inputs, const ExportOptions& options) {
  if (options.dynamic.empty()) return {{}};
  constexpr int64_t kMore = 3;
  std::vector<std::map<std::string, int64_t>> tried(3);
  for (const auto& dynamic : options.dynamic) {
    const auto size = example_inputs.at(dynamic.input).size(dynamic.dimension);
    // Different for each, so that one is not taken for another.
    const auto more = size + kMore + static_cast<int64_t>(tried[2].size());
    tried[0][dynamic.name] = size;
    tried[1][dynamic.name] = dynamic.least;
    tried[2].emplace(dynamic.name, std::min(dynamic.greatest, more));
  }
  return tried;
}

}  // namespace

ExportReport prove(const torch::nn::Module& module, const Forward& file, const Forward& function,
                   const std::vector<torch::Tensor>& example_inputs, const ExportOptions& options) {
  ExportReport report;
  for (const auto& sizes : sizes_to_try(example_inputs, options)) {
    const auto inputs = resize(example_inputs, options.dynamic, sizes);
    const auto where = fmt::format("an input of shape {}", shape_of(inputs.front()));
    const auto expected = function(inputs).tensors;
    try {
      const auto found = file(inputs).tensors;
      if (found.size() != expected.size()) {
        throw std::runtime_error(fmt::format("the exported file gives {} outputs, the module {}",
                                             found.size(), expected.size()));
      }
      for (std::size_t i = 0; i < found.size(); ++i) {
        report.max_difference = std::max(report.max_difference,
                                         compare(found[i], expected[i], options.tolerance, where));
      }
    } catch (const std::exception& error) {
      const auto frozen = find_frozen_size(module, function, example_inputs, inputs);
      if (!frozen) throw;
      throw std::runtime_error(
          fmt::format("{}; a size was frozen: {}", first_line(error.what()), *frozen));
    }
    report.checked_shapes.push_back(inputs.front().sizes().vec());
  }
  return report;
}

}  // namespace attend
