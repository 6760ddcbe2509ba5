#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace attend {

/// Call stack of each node of a trace.
class CallSites {
 public:
  /// Returns ", called from FUNCTION (FILE:LINE)" with the innermost function outside LibTorch.
  /// Omits (FILE:LINE) if the program has no debug information. Returns "" if no call stack was
  /// recorded for the node.
  std::string text_of(const torch::jit::Node& node) const;

  /// Returns true if `node` and `other` have the same call stack, or if one of the call stacks was
  /// not recorded. `others` has the call stacks of the trace that `other` belongs to.
  bool same(const torch::jit::Node& node, const CallSites& others,
            const torch::jit::Node& other) const;

 private:
  friend class RecordCallSites;
  std::unordered_map<const torch::jit::Node*, std::vector<void*>> stacks_;
};

/// RAII guard: while it exists, traces on this thread record call stacks in `sites`. Installs a
/// process-wide callback in LibTorch's tracer. The destructor does not restore the previous
/// callback, since LibTorch has no function that returns it.
class RecordCallSites {
 public:
  explicit RecordCallSites(CallSites& sites);
  ~RecordCallSites();
  RecordCallSites(const RecordCallSites&) = delete;
  RecordCallSites& operator=(const RecordCallSites&) = delete;
};

}  // namespace attend
