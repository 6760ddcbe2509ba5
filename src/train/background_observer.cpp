#include "attend/train/background_observer.h"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <mutex>

namespace attend::train {

struct BackgroundObserver::State {
  std::vector<std::shared_ptr<Observer>> observers;  // used by the thread only

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::deque<Report> waiting;  // the first one is being delivered
  std::exception_ptr failure;  // the first one
  bool closed = false;         // no further reports
  bool ended = false;          // the thread has returned

  void run();
  void deliver(const Report& report);
  void rethrow() const {
    if (failure) std::rethrow_exception(failure);
  }
};

void BackgroundObserver::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return closed || !waiting.empty(); });
    if (waiting.empty()) break;
    const auto& report = waiting.front();  // a deque keeps references valid when adding
    lock.unlock();
    deliver(report);
    lock.lock();
    waiting.pop_front();
    changed.notify_all();
  }
  ended = true;
  changed.notify_all();
}

void BackgroundObserver::State::deliver(const Report& report) {
  std::erase_if(observers, [&](const auto& observer) {
    try {
      report(*observer);
      return false;
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      return true;
    }
  });
}

BackgroundObserver::BackgroundObserver(std::vector<std::shared_ptr<Observer>> observers,
                                       std::chrono::milliseconds timeout)
    : state_(std::make_shared<State>()), timeout_(timeout) {
  state_->observers = std::move(observers);
  // A new thread inherits the signal mask. Block all signals in it: they would interrupt writes.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([state = state_] { state->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BackgroundObserver::~BackgroundObserver() {
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
    ended = state_->changed.wait_for(lock, timeout_, [&] { return state_->ended; });
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void BackgroundObserver::on_progress(const Progress& progress) {
  enqueue([progress](Observer& observer) { observer.on_progress(progress); });
}

void BackgroundObserver::on_evaluation(int64_t step, const Evaluation& evaluation) {
  enqueue([=](Observer& observer) { observer.on_evaluation(step, evaluation); });
}

void BackgroundObserver::on_finish() {
  std::unique_lock lock(state_->mutex);
  state_->waiting.emplace_back([](Observer& observer) { observer.on_finish(); });
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return state_->waiting.empty(); });
  state_->rethrow();
}

void BackgroundObserver::enqueue(Report report) {
  const std::lock_guard lock(state_->mutex);
  state_->rethrow();
  state_->waiting.push_back(std::move(report));
  state_->changed.notify_all();
}

}  // namespace attend::train
