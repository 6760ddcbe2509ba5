#pragma once

#include "export/call_sites.h"
#include "export/thread_callback.h"

#include <string>
#include <vector>

namespace attend {

/// RAII guard: while it exists, records the operators, such as `item()`, that read values of
/// tensors during traces on this thread. Such a value is a constant in the trace. Guards of one
/// thread must not overlap.
class RecordValuesRead {
 public:
  RecordValuesRead();
  ~RecordValuesRead();

  /// Returns texts such as "aten::item, called from FUNCTION (FILE:LINE)". If an operator reads
  /// values several times at the same call site, the text occurs once.
  std::vector<std::string> texts() const;

  /// A call of an operator that reads values.
  struct Read {
    std::string name;  ///< of the operator
    CallStack stack;
  };

 private:
  std::vector<Read> reads_;
  ThreadCallback callback_;
};

}  // namespace attend
