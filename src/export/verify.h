#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "export/export_guard.h"
#include "export/lifted_sizes.h"

#include <torch/nn/module.h>

#include <functional>
#include <vector>

namespace attend {

/// A module and its exported program, which are compared. Contains references to its arguments.
struct ExportedModule {
  const torch::nn::Module& module;
  const Forward& exported;
  const std::vector<torch::Tensor>& example_inputs;
  const TraceSummary& trace;
  const ExportOptions& options;
};

/// Compares an exported program with the module on the example inputs and on inputs of other sizes
/// and values. Throws WrongForInputs if the outputs differ. The message
/// names the shapes of the inputs and the difference. If a dimension or value was specialized, the
/// message also names the operator and its call site. Also throws std::runtime_error if forward
/// mutates parameters or constants. Sizes near the integers in the trace are verified too.
ATTEND_API ExportReport verify(ExportGuard& guard, const ExportedModule& subject);

/// Returns `attempt(example_inputs)`. `attempt` traces a module with the given inputs, exports the
/// program and verifies it. If it throws WrongForInputs, calls it again with these inputs, up to
/// twice and unless an input is empty: a trace at special sizes may lack operators that other sizes
/// need. For example, calls of `contiguous` are not traced if a dimension of size 1 makes a
/// transposed tensor contiguous. If all attempts fail, throws the error of the first.
ATTEND_API ExportReport export_with_retries(
    const std::vector<torch::Tensor>& example_inputs,
    const std::function<ExportReport(const std::vector<torch::Tensor>& traced_inputs)>& attempt);

/// Calls `action`. If `action` throws std::runtime_error, adds the name of the method to the
/// message, unless it is `forward`.
ATTEND_API void with_method_name(const TracedMethod& method, const std::string& forward,
                                 const std::function<void()>& action);

}  // namespace attend
