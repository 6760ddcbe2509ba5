#pragma once

#include <ATen/record_function.h>

namespace attend {

/// RAII guard: until the end of the scope, LibTorch calls `callback` for the operators of this
/// thread and, since LibTorch copies callbacks, of threads that it starts from this thread.
class ThreadCallback {
 public:
  explicit ThreadCallback(at::RecordFunctionCallback callback)
      : handle_(at::addThreadLocalCallback(callback.scopes({at::RecordScope::FUNCTION}))) {}
  ~ThreadCallback() { at::removeCallback(handle_); }
  ThreadCallback(const ThreadCallback&) = delete;
  ThreadCallback& operator=(const ThreadCallback&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace attend
