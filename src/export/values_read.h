#pragma once

#include "export/call_sites.h"

#include <ATen/record_function.h>

#include <string>
#include <vector>

namespace attend {

/// RAII guard: while it exists, records the operators, such as `item()`, that read values of
/// tensors during traces on this thread. Such a value is a constant in the trace.
class RecordValuesRead {
 public:
  RecordValuesRead();
  ~RecordValuesRead();
  RecordValuesRead(const RecordValuesRead&) = delete;
  RecordValuesRead& operator=(const RecordValuesRead&) = delete;

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
  at::CallbackHandle callback_;
  std::vector<Read>* previous_;  // reads that an outer guard records, or nullptr
};

}  // namespace attend
