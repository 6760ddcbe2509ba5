#pragma once

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

  /// Returns "aten::item, called from FUNCTION (FILE:LINE)" for each operator and call site.
  std::vector<std::string> texts() const;

  /// An operator that read values.
  struct Read {
    std::string name;
    std::vector<void*> stack;
  };

 private:
  std::vector<Read> reads_;
  at::CallbackHandle callback_;
  std::vector<Read>* previous_;  // reads of an outer guard
};

}  // namespace attend
