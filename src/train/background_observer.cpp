#include "attend/train/background_observer.h"

#include "attend/train/background_thread.h"

#include <exception>

namespace attend::train {
namespace {

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

}  // namespace

BackgroundObserver::BackgroundObserver(std::vector<std::shared_ptr<Observer>> observers,
                                       std::chrono::milliseconds timeout)
    : observers_(std::make_shared<Observers>(std::move(observers))),
      thread_(std::make_unique<BackgroundThread>(timeout)) {}

BackgroundObserver::~BackgroundObserver() = default;

void BackgroundObserver::on_progress(const Progress& progress) {
  thread_->rethrow();
  add([progress](Observer& observer) { observer.on_progress(progress); });
}

void BackgroundObserver::on_evaluation(int64_t step, const Evaluation& evaluation) {
  thread_->rethrow();
  add([=](Observer& observer) { observer.on_evaluation(step, evaluation); });
}

void BackgroundObserver::on_finish() {
  add([](Observer& observer) { observer.on_finish(); });
  thread_->wait_for_at_most(0);
  thread_->rethrow();
}

void BackgroundObserver::add(Report report) {
  thread_->add(
      [observers = observers_, report = std::move(report)] { deliver(report, *observers); });
}

}  // namespace attend::train
