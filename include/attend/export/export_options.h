#pragma once

#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace attend {

/// What a module returns, one tensor or several, so that a function may return either.
struct Outputs {
  Outputs(torch::Tensor one) : tensors{std::move(one)} {}
  Outputs(std::vector<torch::Tensor> all) : tensors(std::move(all)) {}
  template <typename... Each>
  Outputs(const std::tuple<Each...>& all)
      : tensors(std::apply([](const auto&... each) { return std::vector<torch::Tensor>{each...}; },
                           all)) {}

  std::vector<torch::Tensor> tensors;
};

/// What an exporter takes of a module: its outputs for inputs like those of the example.
using Forward = std::function<Outputs(const std::vector<torch::Tensor>&)>;

/// That of a module that takes one tensor.
template <typename Contained>
Forward forward_of(torch::nn::ModuleHolder<Contained> module) {
  return [module](const std::vector<torch::Tensor>& inputs) mutable -> Outputs {
    return module->forward(inputs.at(0));
  };
}

/// A dimension of an input that may have another size than that of the example. The same name in
/// several places is the same size.
///
///     DynamicDimension{.input = 0, .dimension = 1, .name = "length", .greatest = 64}
struct DynamicDimension {
  std::size_t input = 0;  ///< its place among the inputs
  int64_t dimension = 0;  ///< of that input; not negative
  std::string name;       ///< letters, digits and _; no digit first, no word of Python
  int64_t least = 1;      ///< 1 or more
  int64_t greatest = std::numeric_limits<int64_t>::max();
};

/// How a module is exported, in whatever format.
///
///     ExportOptions{.input_names = {"tokens"}, .dynamic = {{0, 0, "batch"}, {0, 1, "length"}}}
struct ExportOptions {
  /// Names of forward's inputs in the file; input0, input1, ... for those without one.
  std::vector<std::string> input_names = {};
  /// Names of its outputs; output0, output1, ... for those without one. Only ONNX has them.
  std::vector<std::string> output_names = {};
  /// Sizes that may differ from those of the example; all others are fixed.
  std::vector<DynamicDimension> dynamic = {};
  /// Texts stored in the file by name.
  std::map<std::string, std::string> extra_files = {};
  /// How far the file may be from the module: |difference| <= tolerance * (1 + |value|).
  double tolerance = 1e-5;
};

/// What was proved of a written file.
struct ExportReport {
  double max_difference = 0.0;  ///< largest absolute one between file and module, over all checks
  std::vector<std::vector<int64_t>> checked_shapes;  ///< of the first input, each once
  /// Whether the module took inputs of other values than the example's. If it took none, a number
  /// that it reads from a value in C++ may be frozen in the file.
  bool checked_other_values = false;
};

}  // namespace attend
