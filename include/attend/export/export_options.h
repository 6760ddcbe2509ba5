#pragma once

#include "attend/api.h"
#include "attend/export/tree_spec.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace attend {

/// Output of a module's forward: one tensor, several as a vector, or a nested value.
struct Outputs {
  /// A single output.
  Outputs(torch::Tensor tensor) : tensors{std::move(tensor)} {}
  /// Several outputs; a single one is not nested.
  Outputs(std::vector<torch::Tensor> all) : tensors(std::move(all)) {
    if (tensors.size() != 1) {
      spec = {.kind = TreeSpec::Kind::tuple, .children = std::vector<TreeSpec>(tensors.size())};
    }
  }
  /// A nested value, such as the tuple that `torch::nn::GRU` returns, or a
  /// `std::map<std::string, torch::Tensor>`.
  template <Nested Value>
  Outputs(const Value& value)
      : spec(visit_tensors(value, [this](const auto& tensor) { tensors.push_back(tensor); })) {}

  std::vector<torch::Tensor> tensors;  ///< all outputs, in order, without those that are None
  TreeSpec spec;                       ///< structure of the outputs
};

/// The function to export: computes a module's outputs from its inputs. The function gets the
/// inputs as a vector. They have the same order as the `example_inputs` that are passed to
/// `export_onnx` or another exporter.
///
///     Forward forward = [seq2seq](const auto& in) mutable { return seq2seq(in[0], in[1]); };
using Forward = std::function<Outputs(const std::vector<torch::Tensor>&)>;

/// Returns the `Forward` of a module that takes one tensor. The function refers to `module`, which
/// must exist when it is called.
template <std::derived_from<torch::nn::Module> Module>
Forward forward_of(Module& module) {
  return [&module](const std::vector<torch::Tensor>& inputs) -> Outputs {
    return module.forward(inputs.at(0));
  };
}

/// Returns the `Forward` of a module that takes one tensor. The function owns the module.
template <typename Contained>
Forward forward_of(torch::nn::ModuleHolder<Contained> module) {
  return [module](const std::vector<torch::Tensor>& inputs) mutable -> Outputs {
    return module->forward(inputs.at(0));
  };
}

/// Returns the `Forward` of a module that takes one tensor. The function owns the module. Throws
/// c10::ValueError if `module` is null.
template <typename Contained>
Forward forward_of(const std::shared_ptr<Contained>& module) {
  TORCH_CHECK_VALUE(module != nullptr, "expected a module, found a null pointer");
  return [module](const std::vector<torch::Tensor>& inputs) -> Outputs {
    return module->forward(inputs.at(0));
  };
}

/// Returns the `Forward` of a module that takes and returns one tensor. The function owns the
/// module, and throws c10::Error if the module returns anything else.
inline Forward forward_of(torch::nn::AnyModule module) {
  return [module = std::move(module)](const std::vector<torch::Tensor>& inputs) mutable -> Outputs {
    return module.forward(inputs.at(0));
  };
}

/// An input dimension whose size may vary between calls, like `torch.export.Dim` in Python.
/// Dimensions with the same name always have the same size.
///
///     DynamicDimension{.input = 0, .dimension = 1, .name = "length", .max = 64}
struct DynamicDimension {
  std::size_t input = 0;  ///< index of the input; of nested inputs, index of the tensor
  int64_t dimension = 0;  ///< index of the dimension, not negative
  std::string name;       ///< UTF-8, not empty; only ONNX files contain the name
  int64_t min = 1;        ///< smallest size, 0 or more; the size in the example is 1 or more
  /// Largest size; by default, there is no limit. For .pt2 archives, `max` must be 3 or more,
  /// unless `max` is equal to `min`.
  int64_t max = std::numeric_limits<int64_t>::max();
};

/// An argument of forward, as callers of the exported program pass it.
struct ForwardArgument {
  std::string name;  ///< name of the parameter of forward
  TreeSpec spec;     ///< structure of the argument
};

/// Options of all exporters.
///
///     ExportOptions{.input_names = {"tokens"}, .dynamic = {{0, 0, "batch"}, {0, 1, "length"}}}
struct ExportOptions {
  /// Names of the inputs, in order; of the arguments of forward if the inputs are nested. If this
  /// list is shorter than the list of inputs, the remaining inputs are named by their index:
  /// input0, input1, ...
  std::vector<std::string> input_names = {};
  /// Names of the outputs, in order (ONNX only). If this list is shorter than the list of outputs,
  /// the remaining outputs are named by their index: output0, output1, ..., or by their keys if
  /// forward returns a dictionary.
  std::vector<std::string> output_names = {};
  /// Dynamic dimensions of the inputs. All other dimensions are static: their sizes are always
  /// those of the example inputs.
  std::vector<DynamicDimension> dynamic = {};
  /// Arguments of forward, if they are nested: the exported program then takes these instead of
  /// one tensor for each input. `flatten_call` sets this field.
  std::vector<ForwardArgument> arguments = {};
  /// Extra files to store in the exported file: a map from file name to content.
  std::map<std::string, std::string> extra_files = {};
  /// Tolerance for the outputs of the exported program. The export fails unless each element y of
  /// these outputs satisfies |y - expected| <= tolerance * min(1 + |expected|, largest). `expected`
  /// is the corresponding element of the module's outputs. `largest` is the largest absolute value
  /// of the finite elements in the module's output tensor that contains `expected`. Integers,
  /// Booleans and infinite elements must be equal; NaN must correspond to NaN. A larger difference
  /// is allowed, up to 100 times the tolerance, if it is at most 4 times the change of the output
  /// that rounding of the parameters, buffers and inputs causes.
  double tolerance = 1e-5;
};

/// Returns `options` with arguments of the given structures. `options.input_names` are the names of
/// the arguments; in the result, they are the names of the tensors, as in torch.export:
/// `batch_mask` for the element "mask" of a dictionary `batch`. Throws c10::ValueError if there are
/// more names than arguments.
ATTEND_API ExportOptions with_arguments(ExportOptions options, std::vector<TreeSpec> specs);

/// A function with nested inputs, as the exporters call it.
struct FlatCall {
  Forward forward;                    ///< calls the function with the tensors in its inputs
  std::vector<torch::Tensor> inputs;  ///< tensors in the example inputs
  ExportOptions options;              ///< see `with_arguments`
};

/// Returns the flat form of `function`, whose arguments and outputs may be nested. `example_inputs`
/// contains an example of each argument. An argument or element that is a std::nullopt there must
/// be None when the exported program is called.
///
///     const auto forward = [&](const auto& in) { return model(in.at(0)); };
///     auto call = flatten_call(forward, std::tuple(std::vector{tokens}), {});
template <typename Function, typename... Inputs>
FlatCall flatten_call(const Function& function, const std::tuple<Inputs...>& example_inputs,
                      const ExportOptions& options) {
  FlatCall call;
  auto spec = visit_tensors(example_inputs,
                            [&](const torch::Tensor& tensor) { call.inputs.push_back(tensor); });
  call.options = with_arguments(options, std::move(spec.children));
  call.forward = [function, example_inputs](const std::vector<torch::Tensor>& tensors) -> Outputs {
    auto inputs = example_inputs;
    std::size_t next = 0;
    visit_tensors(inputs, [&](torch::Tensor& tensor) { tensor = tensors.at(next++); });
    return std::apply(function, inputs);
  };
  return call;
}

/// A function that the exported file contains in addition to forward: a method of a TorchScript
/// file, or a program of a .pt2 archive. It is traced from a C++ function.
struct TracedMethod {
  std::string name;                             ///< method name
  Forward function;                             ///< function to trace
  std::vector<torch::Tensor> example_inputs;    ///< inputs with which the function is traced
  std::vector<std::string> input_names = {};    ///< see ExportOptions::input_names
  std::vector<DynamicDimension> dynamic = {};   ///< see ExportOptions::dynamic
  std::vector<ForwardArgument> arguments = {};  ///< see ExportOptions::arguments
};

/// Smallest and largest size of a dimension.
struct SizeRange {
  int64_t min = 0;  ///< smallest size
  int64_t max = 0;  ///< largest size
};

/// Result of verifying an export: the exported program was compared with the module.
struct ExportReport {
  /// Largest absolute difference between the outputs of the exported program and of the module,
  /// over all comparisons.
  double max_abs_diff = 0.0;
  /// Number of combinations of input sizes for which the outputs were compared.
  int64_t num_verified_shapes = 0;
  /// Smallest and largest verified size of each dynamic dimension, by name. The largest verified
  /// size is less than `DynamicDimension::max` if `max` has its default value, or if larger inputs
  /// would need too much memory or time.
  std::map<std::string, SizeRange> verified_sizes;
  /// True if the outputs were also compared for inputs whose values differ from those of the
  /// example inputs. False if the module throws for all other values, or if the exporter tries no
  /// other values, for example because all inputs are empty or complex. If forward reads a value
  /// with `item()`, the value is a constant in the file, and the outputs may be wrong for inputs
  /// with other values. Only a comparison for inputs with other values detects such an error.
  bool verified_other_values = false;
  /// Operators that read values of tensors into C++ numbers or Booleans while forward is traced.
  /// Only the first 64 call stacks are recorded. Each text names an operator and its call site, for
  /// example "aten::item, called from Net::forward (net.cpp:12)". A call site that reads several
  /// times is listed once. Each value that was read is a constant in the file. Where forward
  /// branches on such a value, for example in an `if` statement, the file contains only the branch
  /// that was run with the example inputs.
  std::vector<std::string> values_read = {};
  /// File that contains the weights of an ONNX file (see `OnnxOptions::external_data`); empty if
  /// the exported file contains them itself.
  std::filesystem::path external_data = {};
};

}  // namespace attend
