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

/// Output of a module's forward: one tensor, or several as a vector or tuple.
struct Outputs {
  /// A single output.
  Outputs(torch::Tensor tensor) : tensors{std::move(tensor)} {}
  /// Several outputs.
  Outputs(std::vector<torch::Tensor> all) : tensors(std::move(all)) {}
  /// Several outputs, as modules such as `torch::nn::GRU` return them.
  template <typename... Each>
  Outputs(const std::tuple<Each...>& all)
      : tensors(std::apply([](const auto&... each) { return std::vector<torch::Tensor>{each...}; },
                           all)) {}

  std::vector<torch::Tensor> tensors;  ///< all outputs, in order
};

/// The function to export: computes a module's outputs from its inputs. The vector contains the
/// inputs in the order of the exporter's argument `example_inputs`.
///
///     Forward forward = [seq2seq](const auto& in) mutable { return seq2seq(in[0], in[1]); };
using Forward = std::function<Outputs(const std::vector<torch::Tensor>&)>;

/// Returns the `Forward` of a module that takes one tensor.
template <typename Contained>
Forward forward_of(torch::nn::ModuleHolder<Contained> module) {
  return [module](const std::vector<torch::Tensor>& inputs) mutable -> Outputs {
    return module->forward(inputs.at(0));
  };
}

/// An input dimension whose size may vary between calls, like `torch.export.Dim` in Python.
/// Dimensions with the same name always have the same size.
///
///     DynamicDimension{.input = 0, .dimension = 1, .name = "length", .max = 64}
struct DynamicDimension {
  std::size_t input = 0;  ///< index of the input
  int64_t dimension = 0;  ///< index of the dimension, not negative
  std::string name;       ///< a Python identifier (letters, digits, _) that is not a keyword
  int64_t min = 1;        ///< smallest size, 1 or more
  int64_t max = std::numeric_limits<int64_t>::max();  ///< largest size
};

/// Options of all exporters.
///
///     ExportOptions{.input_names = {"tokens"}, .dynamic = {{0, 0, "batch"}, {0, 1, "length"}}}
struct ExportOptions {
  /// Names of the inputs; inputs without one are named input0, input1, ...
  std::vector<std::string> input_names = {};
  /// Names of the outputs (ONNX only); outputs without one are named output0, output1, ...
  std::vector<std::string> output_names = {};
  /// Dynamic dimensions of the inputs. All others are static: they have the example's size.
  std::vector<DynamicDimension> dynamic = {};
  /// Contents of extra files stored in the exported file, by name.
  std::map<std::string, std::string> extra_files = {};
  /// Verification fails unless |y - expected| <= tolerance * min(1 + |expected|, largest) for each
  /// element y of the exported program's outputs. `expected` is the corresponding element of the
  /// module's outputs, and `largest` is the largest |expected| of this output. Integers and
  /// Booleans must be equal.
  double tolerance = 1e-5;
};

/// Smallest and largest size of a dimension.
struct SizeRange {
  int64_t min = 0;  ///< smallest size
  int64_t max = 0;  ///< largest size
};

/// Result of comparing an exported file with its module.
struct ExportReport {
  /// Largest absolute difference between the outputs of the exported program and of the module,
  /// over all comparisons.
  double max_abs_diff = 0.0;
  int64_t num_verified_shapes = 0;  ///< number of combinations of sizes that were compared
  /// Smallest and largest verified size of each dynamic dimension, by name. The largest is less
  /// than `DynamicDimension::max` if larger inputs need too much memory or time.
  std::map<std::string, SizeRange> verified_sizes;
  /// True if the module accepted inputs with values other than the example's. Only such inputs
  /// detect that forward reads a value with `item()`, which makes the value a constant in the file.
  bool verified_other_values = false;
  /// Operators that read values of tensors into C++ numbers or Booleans during the trace, and their
  /// call sites: "aten::item, called from Net::forward (net.cpp:12)". The file contains the values
  /// as constants, and of each branch on such a value only the branch that the example takes.
  std::vector<std::string> values_read = {};
};

}  // namespace attend
