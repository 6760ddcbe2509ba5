#pragma once

#include "attend/export/export_options.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace attend {

using Tensors = std::vector<torch::Tensor>;

/// Placeholders for dynamic sizes in the shape of a `CaseInput`.
enum DynamicSize : int64_t { kBatch = -1, kLength = -2, kMemoryLength = -3 };

/// Name, range and tested sizes of a dynamic size.
struct DynamicSizeSpec {
  const char* name;
  int64_t min;
  int64_t max;
  int64_t example;  ///< size in the example inputs
  /// Sizes at which the Python tests compare outputs, besides `min` and `max`.
  std::array<int64_t, 3> others;
};

/// Returns the specification of a `DynamicSize`, or of a placeholder that `add_dynamic_size`
/// returned.
const DynamicSizeSpec& spec_of(int64_t dynamic_size);

/// Adds a dynamic size and returns its placeholder.
int64_t add_dynamic_size(const DynamicSizeSpec& spec);

/// Returns a random integer in [min, max].
int64_t draw_between(int64_t min, int64_t max);

/// An input of an `ExportCase`. `shape` may contain placeholders for dynamic sizes. `draw` is
/// called with a shape without placeholders. It returns a tensor of that shape with random values.
struct CaseInput {
  std::string name;
  std::vector<int64_t> shape;
  std::function<torch::Tensor(const std::vector<int64_t>&)> draw;
};

/// Random tokens 0 .. vocab_size-1.
CaseInput tokens(const char* name, int64_t vocab_size,
                 std::vector<int64_t> shape = {kBatch, kLength});
/// Normally distributed floats.
CaseInput reals(const char* name, std::vector<int64_t> shape);
/// Bools, 70% true.
CaseInput bools(const char* name, std::vector<int64_t> shape = {kBatch, kLength});
/// Integers that do not decrease along the last dimension, for segments or positions.
CaseInput non_decreasing(const char* name, std::vector<int64_t> shape = {kBatch, kLength});

/// A module to export, and its inputs.
struct ExportCase {
  std::string group;   ///< the module's class
  std::string option;  ///< name of the options that differ from the default: letters, digits and _
  std::shared_ptr<torch::nn::Module> module;
  Forward forward;
  std::vector<CaseInput> inputs;
  torch::Dtype dtype = torch::kFloat;  ///< dtype of parameters and float inputs
  std::set<std::string> formats = {"torchscript", "pt2", "onnx"};
  bool draws_random_numbers = false;
  /// Magnitude of the terms that each element of the outputs adds up. Rounding errors follow it if
  /// the terms cancel in all elements, as they may in one product of two unit vectors.
  double terms = 0.0;
  /// Export errors that contain one of these texts are not failures.
  std::vector<std::string> allowed_errors = {};

  std::string name() const { return group + "." + option; }
};

/// A case whose forward is `run(module, inputs)`.
template <typename Holder, typename Run>
ExportCase make_case(const char* group, const std::string& option, const Holder& holder,
                     std::vector<CaseInput> inputs, const Run& run) {
  const auto module = holder.ptr();
  return {.group = group,
          .option = option,
          .module = module,
          .forward = [module, run](const Tensors& in) -> Outputs { return run(*module, in); },
          .inputs = std::move(inputs)};
}

/// A case whose forward is `module.forward(inputs[0])`.
template <typename Holder>
ExportCase make_case(const char* group, const std::string& option, const Holder& holder,
                     std::vector<CaseInput> inputs) {
  return make_case(group, option, holder, std::move(inputs),
                   [](auto& module, const Tensors& in) { return module.forward(in.at(0)); });
}

/// A `run` for `make_case` that passes the second input as key_mask.
inline constexpr auto kPadded = [](auto& module, const Tensors& in) {
  return module.forward(in.at(0), {.key_mask = in.at(1)});
};

/// Casts the case to another dtype.
ExportCase cast(ExportCase any, torch::Dtype dtype);

/// Returns the tolerance with which the outputs of an exported file are compared to the outputs of
/// a module whose parameters have the given dtype. See `ExportOptions::tolerance`.
double tolerance_of(torch::Dtype dtype);

/// Returns random inputs of a case; `size` returns the size for each `DynamicSizeSpec`.
Tensors draw(const ExportCase& any, const std::function<int64_t(const DynamicSizeSpec&)>& size);
/// Returns random example inputs.
Tensors draw_example(const ExportCase& any);

/// Returns the options for the export of a case. They are the same for all formats.
ExportOptions options_of(const ExportCase& any);

/// Returns `function()`; adds the case name to errors.
template <typename Function>
auto with_source(const ExportCase& any, const Function& function) {
  try {
    return function();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw std::runtime_error(any.name() + ": " + what.substr(0, what.find('\n')));
  }
}

/// Concatenates lists.
std::vector<ExportCase> joined(const std::vector<std::vector<ExportCase>>& lists);

std::vector<ExportCase> model_cases();     ///< modules of include/attend/models
std::vector<ExportCase> module_cases();    ///< modules of include/attend/nn
std::vector<ExportCase> size_cases();      ///< modules that read their sizes
std::vector<ExportCase> network_cases();   ///< small networks of published kinds
std::vector<ExportCase> user_cases();      ///< custom modules
std::vector<ExportCase> operator_cases();  ///< single operators
/// Random programs of two kinds. Programs of the first kind contain views and in-place operators.
/// They are exported only to ONNX, which has neither views nor in-place operators. `count` programs
/// of the second kind contain operators on sequences of shape (B, L, D).
std::vector<ExportCase> random_programs(int count);
std::vector<ExportCase> random_modules(int count);  ///< random layers, and sizes that are read

}  // namespace attend
