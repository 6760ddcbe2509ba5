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

/// Stand for sizes that differ from call to call where an input's shape is asked for.
enum DynamicSize : int64_t { kBatch = -1, kLength = -2, kMemoryLength = -3 };

/// What one of those sizes is called in a file, and within what bounds it may differ.
struct SizeOfCalls {
  const char* name;
  int64_t least;
  int64_t greatest;
  int64_t example;                ///< what the case is exported with
  std::array<int64_t, 3> others;  ///< what it is compared at
};

/// By minus their `DynamicSize`, from 1.
inline constexpr std::array<SizeOfCalls, 3> kSizesOfCalls{{
    {"batch", 1, 64, 2, {1, 3, 4}},
    {"length", 1, 16, 5, {1, 16, 9}},
    {"memory_length", 1, 16, 4, {12, 7, 1}},
}};

inline const SizeOfCalls& size_of_calls(int64_t dynamic_size) {
  return kSizesOfCalls.at(static_cast<std::size_t>(-dynamic_size - 1));
}

/// An input of a case: its name, its shape, in which `DynamicSize` may stand, and how one is drawn.
struct CaseInput {
  std::string name;
  std::vector<int64_t> shape;
  std::function<torch::Tensor(const std::vector<int64_t>&)> draw;
};

/// Tokens 0 .. vocab_size-1.
CaseInput tokens(const char* name, int64_t vocab_size,
                 std::vector<int64_t> shape = {kBatch, kLength});
/// Normal numbers.
CaseInput reals(const char* name, std::vector<int64_t> shape);
/// Bools, most of them true.
CaseInput bools(const char* name, std::vector<int64_t> shape = {kBatch, kLength});
/// Whole numbers that never fall along a row and often rise: documents, or positions.
CaseInput rising(const char* name, std::vector<int64_t> shape = {kBatch, kLength});

/// A module that is exported.
struct ExportCase {
  std::string group;   ///< the module's class
  std::string option;  ///< what of it is not the default: letters, digits and _
  std::shared_ptr<torch::nn::Module> module;
  Forward forward;
  std::vector<CaseInput> inputs;
  torch::Dtype dtype = torch::kFloat;  ///< of parameters and of float inputs
  std::set<std::string> formats = {"torchscript", "pt2", "onnx"};
  std::string may_be_refused = {};  ///< part of the message of an error that is no failure

  std::string name() const { return group + "." + option; }
};

/// A case of a module and of what computes its result from its inputs: `run(module, inputs)`.
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

/// The same for a module whose forward takes the inputs as they are.
template <typename Holder>
ExportCase make_case(const char* group, const std::string& option, const Holder& holder,
                     std::vector<CaseInput> inputs) {
  return make_case(group, option, holder, std::move(inputs),
                   [](auto& module, const Tensors& in) { return module.forward(in.at(0)); });
}

/// Runs a module on the first input, of which the second says what is no padding.
inline constexpr auto kPadded = [](auto& module, const Tensors& in) {
  return module.forward(in.at(0), {.key_mask = in.at(1)});
};

/// The case in another dtype.
ExportCase cast(ExportCase any, torch::Dtype dtype);

/// How far a file may be from the module: |difference| <= tolerance * (1 + |value|).
double tolerance_of(torch::Dtype dtype);

/// Draws the inputs of a case; `size` gives the number for each `SizeOfCalls`.
Tensors draw(const ExportCase& any, const std::function<int64_t(const SizeOfCalls&)>& size);
/// Those that it is exported with.
Tensors draw_example(const ExportCase& any);

/// What it is exported with, whatever the format.
ExportOptions options_of(const ExportCase& any);

/// What `function` returns; errors say of which case they are.
template <typename Function>
auto with_source(const ExportCase& any, const Function& function) {
  try {
    return function();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw std::runtime_error(any.name() + ": " + what.substr(0, what.find('\n')));
  }
}

/// Several lists as one.
std::vector<ExportCase> joined(const std::vector<std::vector<ExportCase>>& lists);

std::vector<ExportCase> model_cases();     ///< of include/attend/models
std::vector<ExportCase> module_cases();    ///< of include/attend/nn
std::vector<ExportCase> user_cases();      ///< of modules that are not of this library
std::vector<ExportCase> operator_cases();  ///< of single operators
/// Of views and changes in place, one after the other, which tensors of ONNX do not have.
std::vector<ExportCase> random_cases();

}  // namespace attend
