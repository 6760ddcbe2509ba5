#pragma once

#include "export/thread_callback.h"

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace attend {

/// Source lines that called the nodes of a trace.
using StackTraces = std::unordered_map<const torch::jit::Node*, std::string>;

using CallStack = std::vector<void*>;  ///< addresses, the innermost call first

/// Returns a text ", called from FUNCTION (FILE:LINE)" for each call stack. FUNCTION is the
/// innermost function in the stack that belongs neither to LibTorch nor to the C++ standard library
/// nor to attend, or else the innermost of attend. Functions that were inlined count if the program
/// has debug information. If all of them were inlined and it has none, FUNCTION is the outermost
/// library function that was compiled into the program. Omits (FILE:LINE) without debug
/// information. A text is "" if there is no function to name, or if addr2line (binutils) is not
/// installed.
std::vector<std::string> call_site_texts(const std::vector<CallStack>& stacks);

/// Call stack of each node of a trace.
class CallSites {
 public:
  /// Returns the text of `call_site_texts` for a node, or "" if no call stack was recorded for the
  /// node. If the text contains no line, the path of the module that calls the node is added, such
  /// as "in the module encoder.layers.3".
  std::string text_of(const torch::jit::Node& node) const;

  /// Returns the source line that called each node, as the metadata of torch.export contains it:
  /// 'File "net.cpp", line 12, in Net::forward'. Omits nodes without debug information.
  StackTraces stack_traces() const;

  /// Returns true if `node` and `other` have the same call stack, or if at least one of the two
  /// call stacks was not recorded. `others` contains the call stacks of the trace that contains
  /// `other`.
  bool same(const torch::jit::Node& node, const CallSites& others,
            const torch::jit::Node& other) const;

 private:
  friend class RecordCallSites;
  std::unordered_map<const torch::jit::Node*, CallStack> stacks_;
};

/// RAII guard: while it exists, traces on this thread record call stacks in `sites`. Guards of one
/// thread must not overlap. The guard observes the operator calls of this thread. It does not use
/// the callback of LibTorch's tracer (`setRecordSourceLocation`): all threads share that callback,
/// and a guard could not restore it, since LibTorch has no function that returns the current
/// callback.
class RecordCallSites {
 public:
  explicit RecordCallSites(CallSites& sites);
  ~RecordCallSites();

 private:
  ThreadCallback callback_;
};

}  // namespace attend
