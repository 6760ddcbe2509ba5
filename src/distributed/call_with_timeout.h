#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <chrono>
#include <future>
#include <thread>
#include <type_traits>
#include <utility>

namespace attend::distributed {

/// Returns `call()`, which runs in a thread of its own: c10d waits without a timeout for the answer
/// of a store. Throws c10::DistStoreError if `call` does not return within the timeout. Its thread
/// then runs until the process ends, so that `call` may only use what it owns.
template <typename Call>
auto call_with_timeout(std::chrono::milliseconds timeout, Call call) {
  std::packaged_task<std::invoke_result_t<Call&>()> task(std::move(call));
  auto result = task.get_future();
  std::thread thread(std::move(task));
  if (result.wait_for(timeout) == std::future_status::timeout) {
    thread.detach();
    C10_THROW_ERROR(DistStoreError, fmt::format("no answer within {} s",
                                                std::chrono::duration<double>(timeout).count()));
  }
  thread.join();
  return result.get();
}

}  // namespace attend::distributed
