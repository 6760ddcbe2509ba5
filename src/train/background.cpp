#include "attend/train/background.h"

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

/// Calls `report` for each observer. Removes observers that throw, then rethrows the first
/// exception.
void deliver(const std::function<void(Observer&)>& report,
             std::vector<std::shared_ptr<Observer>>& observers) {
  std::exception_ptr failure;
  std::erase_if(observers, [&](const auto& observer) {
    try {
      report(*observer);
      return false;
    } catch (...) {
      if (!failure) failure = std::current_exception();
      return true;
    }
  });
  if (failure) std::rethrow_exception(failure);
}

// A new call of `save` or `save_best` waits until at most this many earlier calls are pending or
// running.
constexpr std::size_t kMaxPending = 1;

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

void BackgroundThread::wait_for_at_most(std::size_t count) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->functions.size() <= count; });
}

void BackgroundThread::rethrow() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->failure) std::rethrow_exception(state_->failure);
}

void BackgroundObserver::on_progress(const Progress& progress) {
  thread_.rethrow();
  add([progress](Observer& observer) { observer.on_progress(progress); });
}

void BackgroundObserver::on_evaluation(int64_t step, const Evaluation& evaluation) {
  thread_.rethrow();
  add([=](Observer& observer) { observer.on_evaluation(step, evaluation); });
}

void BackgroundObserver::on_finish() {
  add([](Observer& observer) { observer.on_finish(); });
  thread_.wait_for_at_most(0);
  thread_.rethrow();
}

void BackgroundObserver::add(Report report) {
  thread_.add(
      [observers = observers_, report = std::move(report)] { deliver(report, *observers); });
}

void BackgroundCheckpointSink::save_best(const std::map<std::string, torch::Tensor>& weights) {
  thread_.wait_for_at_most(kMaxPending);
  thread_.rethrow();
  thread_.add([sink = sink_, weights] { sink->save_best(weights); });
}

void BackgroundCheckpointSink::save(const Checkpoint& checkpoint) {
  thread_.wait_for_at_most(kMaxPending);
  thread_.rethrow();
  thread_.add([sink = sink_, checkpoint] { sink->save(checkpoint); });
}

void BackgroundCheckpointSink::check() {
  thread_.rethrow();
}

void BackgroundCheckpointSink::finish() {
  thread_.wait_for_at_most(0);
  thread_.rethrow();
}

std::string BackgroundCheckpointSink::latest_path() const {
  thread_.wait_for_at_most(0);
  return sink_->latest_path();
}

}  // namespace attend::train
