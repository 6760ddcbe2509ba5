#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace attend {

/// Counts the bytes of tensors that this thread has allocated and not yet freed. The count begins
/// at 0 when the object is constructed.
class LiveBytes {
 public:
  int64_t count() const { return counter_->bytes; }
  /// Returns the largest count so far.
  int64_t peak() const { return counter_->peak; }

 private:
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
      bytes += size;
      peak = std::max(peak, bytes);
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t bytes = 0;
    int64_t peak = 0;
  };
  std::shared_ptr<Counter> counter_ = std::make_shared<Counter>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, counter_};
};

}  // namespace attend
