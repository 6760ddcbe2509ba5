#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace attend {

/// Which functions were running when each operation of a trace was called.
class CallSites {
 public:
  /// ", called by NAME (FILE:LINE)": the innermost function that is not LibTorch's own. Without the
  /// line if the program has no debugging information, empty if nothing is known.
  std::string text_of(const torch::jit::Node& node) const;

  /// Whether a node was called from where another trace called one of its own.
  bool same(const torch::jit::Node& node, const CallSites& others,
            const torch::jit::Node& other) const;

 private:
  friend class RecordCallSites;
  std::unordered_map<const torch::jit::Node*, std::vector<void*>> stacks_;
};

/// While it is alive, traces on this thread note their call sites. Takes LibTorch's place for such
/// a recorder, one for the whole process, and keeps it, since nothing tells which was there before.
class RecordCallSites {
 public:
  explicit RecordCallSites(CallSites& sites);
  ~RecordCallSites();
  RecordCallSites(const RecordCallSites&) = delete;
  RecordCallSites& operator=(const RecordCallSites&) = delete;
};

}  // namespace attend
