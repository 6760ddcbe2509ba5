#pragma once

#include "attend/export/torchscript.h"
#include "export/traced_calls.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <set>

namespace attend {

/// What the export needs to know about a traced method.
struct TraceSummary {
  TracedMethod method = {};
  std::set<int64_t> integers = {};         ///< integer constants, see `integer_constants`
  std::set<ArgumentPosition> lifted = {};  ///< arguments that the method computes from sizes
  TreeSpec outputs = {};                   ///< structure of the outputs
};

/// Traces a method whose function calls `module`, and adds the graph to `scripted`.
///
/// The tracer records integers that the function computes from sizes, such as `x.size(0)` or
/// `2 * x.size(1) - 1`, as constants. They are lifted here: the function is traced at several sizes
/// of the dynamic dimensions. A constant that differs between the traces is replaced by operators
/// (aten::size and arithmetic) if it equals a size of an earlier tensor, or an expression of sizes,
/// in all traces. The same applies to real numbers such as `1 / std::sqrt(x.size(1))`.
/// Traces that call other operators than the method are ignored.
///
/// Throws WrongForInputs if a method with recurrent layers specializes a dimension. Such a
/// method must not run: on the CPU, recurrent layers read out of bounds if the hidden state is too
/// small for the input, whereas other operators throw.
///
/// Records the call sites of the trace in `sites`, unless it is null.
TraceSummary trace_method(torch::jit::Module& scripted, const torch::nn::Module& module,
                          const TracedMethod& method, CallSites* sites = nullptr);

}  // namespace attend
