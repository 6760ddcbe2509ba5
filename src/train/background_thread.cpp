#include "attend/train/background_thread.h"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>

namespace attend::train {
namespace {

/// Blocks all signals of the current thread until the end of the scope. A thread that is started in
/// the scope inherits the signal mask, so signals never interrupt that thread's writes.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct BackgroundThread::State {
  mutable std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::deque<std::function<void()>> functions;  // queue; the first function is running
  std::exception_ptr failure;                   // the first exception of a function
  bool closed = false;                          // true: no more functions will be added
  bool ended = false;                           // true: the thread has returned

  void run();
};

void BackgroundThread::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return closed || !functions.empty(); });
    if (functions.empty()) break;
    const auto& function = functions.front();  // adding to a deque does not invalidate references
    lock.unlock();
    std::exception_ptr thrown;
    try {
      function();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (!failure) failure = thrown;
    functions.pop_front();
    changed.notify_all();
  }
  ended = true;
  changed.notify_all();
}

BackgroundThread::BackgroundThread(std::optional<std::chrono::milliseconds> timeout)
    : state_(std::make_shared<State>()), timeout_(timeout) {
  const BlockedSignals blocked;
  thread_ = std::thread([state = state_] { state->run(); });
}

BackgroundThread::~BackgroundThread() {
  try {
    std::unique_lock lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
    const auto has_ended = [&] { return state_->ended; };
    if (timeout_)
      state_->changed.wait_for(lock, *timeout_, has_ended);
    else
      state_->changed.wait(lock, has_ended);
    const bool ended = has_ended();
    lock.unlock();
    if (ended) thread_.join();
  } catch (const std::system_error&) {
    // The thread is detached below and continues to run.
  }
  if (thread_.joinable()) thread_.detach();
}

void BackgroundThread::add(std::function<void()> function) {
  const std::lock_guard lock(state_->mutex);
  state_->functions.push_back(std::move(function));
  state_->changed.notify_all();
}

void BackgroundThread::wait_for_at_most(std::size_t count) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->functions.size() <= count; });
}

void BackgroundThread::rethrow() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->failure) std::rethrow_exception(state_->failure);
}

}  // namespace attend::train
