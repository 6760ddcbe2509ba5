#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace attend {

/// Returns ", called from FUNCTION (FILE:LINE)" with the innermost function of a call stack that is
/// not part of LibTorch. Omits (FILE:LINE) if the program has no debug information. Returns "" if
/// the call stack is empty.
std::string call_site_text(const std::vector<void*>& stack);

/// Call stack of each node of a trace.
class CallSites {
 public:
  /// Returns the `call_site_text` of a node, or "" if no call stack was recorded for it.
  std::string text_of(const torch::jit::Node& node) const;

  /// Returns true if `node` and `other` have the same call stack, or if one of the call stacks was
  /// not recorded. `others` has the call stacks of the trace that `other` belongs to.
  bool same(const torch::jit::Node& node, const CallSites& others,
            const torch::jit::Node& other) const;

 private:
  friend class RecordCallSites;
  std::unordered_map<const torch::jit::Node*, std::vector<void*>> stacks_;
};

/// RAII guard: while it exists, traces on this thread record call stacks in `sites`. It observes
/// the operator calls of this thread, and does not use the callback of LibTorch's tracer
/// (`setRecordSourceLocation`), which is shared by all threads and cannot be restored.
class RecordCallSites {
 public:
  explicit RecordCallSites(CallSites& sites);
  ~RecordCallSites();
  RecordCallSites(const RecordCallSites&) = delete;
  RecordCallSites& operator=(const RecordCallSites&) = delete;

 private:
  at::CallbackHandle callback_;
  void* previous_;  // call stacks of an outer guard
};

}  // namespace attend
