#pragma once

#include "attend/api.h"
#include "distributed/launch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace attend::distributed {

/// What the processes tell each other through the store when one of them ends: the first error is
/// the cause of all others. Processes whose store is gone, or on a machine that does not answer,
/// end with their own errors.
class ATTEND_API ErrorReport {
 public:
  /// A process waits at most for `grace_period` until the others have noticed that one has ended. A
  /// thread shows the others, more often than that, that this process is alive.
  /// Throws c10::Error if the store does not answer.
  ErrorReport(c10::intrusive_ptr<c10d::Store> store, const Launch& launch,
              std::chrono::milliseconds grace_period);

  /// Called if a process has ended or does not answer, which `error` describes. Returns the message
  /// of the error with which a process has ended, or the ranks that do not answer: the same text in
  /// all processes.
  std::string cause(const std::string& error);
  /// Called by a process that ends because of an error, before it closes its connections to the
  /// others, which thereby notice it.
  void announce(const std::string& message);
  /// Called after that. Returns false if rank 0 has announced the same message, one that begins
  /// with it, or the one that is its cause; see `train::Processes::end_with_error`.
  bool is_new(const std::string& message);

 private:
  class Exchange;
  /// Calls `question` with the exchange. Throws std::runtime_error if it has no answer in time.
  template <typename Question>
  auto ask(const Question& question) const;

  Launch launch_;
  std::chrono::milliseconds grace_period_;
  std::shared_ptr<Exchange> exchange_;  // null: the store is gone
  std::jthread heartbeat_;
};

}  // namespace attend::distributed
