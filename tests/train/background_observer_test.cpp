#include "attend/train/background.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <future>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

namespace attend::train {
namespace {

using testing::ElementsAre;

/// Records its calls. If there is a gate, each call first waits until the gate opens.
class Listener : public Observer {
 public:
  Listener() = default;
  explicit Listener(std::shared_future<void> gate) : gate_(std::move(gate)) {}

  void on_progress(const Progress& progress) override {
    note("step " + std::to_string(progress.step));
  }
  void on_evaluation(int64_t step, const Evaluation& evaluation) override {
    note("evaluation " + std::to_string(step) + " " + std::to_string(evaluation.num_targets));
  }
  void on_finish() override { note("finish"); }

  std::vector<std::string> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  std::thread::id thread() const { return thread_; }

 private:
  void note(std::string word) {
    if (gate_.valid()) gate_.wait();
    const std::lock_guard lock(mutex_);
    heard_.push_back(std::move(word));
    thread_ = std::this_thread::get_id();
  }

  std::shared_future<void> gate_;
  mutable std::mutex mutex_;
  std::vector<std::string> heard_;
  std::thread::id thread_;
};

/// Counts calls of on_progress. From a given step on, each call throws.
struct FullDisk : Observer {
  explicit FullDisk(int64_t step) : step(step) {}
  void on_progress(const Progress& progress) override {
    ++calls;
    if (progress.step >= step)
      throw std::runtime_error("no space at step " + std::to_string(progress.step));
  }
  int64_t step;
  std::atomic<int> calls = 0;
};

TEST(BackgroundObserver, DeliversReportsInOrderOnAnotherThread) {
  const auto first = std::make_shared<Listener>();
  const auto second = std::make_shared<Listener>();
  BackgroundObserver background({first, second});
  background.on_progress(Progress{.step = 1});
  background.on_evaluation(1, Evaluation{.num_targets = 7});
  background.on_progress(Progress{.step = 2});
  background.on_finish();
  for (const auto& listener : {first, second}) {
    EXPECT_THAT(listener->heard(), ElementsAre("step 1", "evaluation 1 7", "step 2", "finish"));
    EXPECT_NE(listener->thread(), std::this_thread::get_id());
  }
}

TEST(BackgroundObserver, DoesNotWaitForASlowObserverAndDropsNothing) {
  std::promise<void> gate;
  const auto slow = std::make_shared<Listener>(gate.get_future().share());
  BackgroundObserver background({slow});
  for (int64_t step = 1; step <= 10000; ++step) background.on_progress(Progress{.step = step});
  EXPECT_TRUE(slow->heard().empty());
  gate.set_value();
  background.on_finish();
  const auto heard = slow->heard();
  ASSERT_EQ(heard.size(), 10001);
  for (std::size_t i = 0; i < 10000; ++i) ASSERT_EQ(heard[i], "step " + std::to_string(i + 1));
}

TEST(BackgroundObserver, RethrowsTheExceptionOfAnObserver) {
  const auto full = std::make_shared<FullDisk>(2);
  BackgroundObserver background({full});
  background.on_progress(Progress{.step = 1});
  background.on_progress(Progress{.step = 2});
  EXPECT_THAT([&] { background.on_finish(); }, throws<std::runtime_error>("no space at step 2"));
  EXPECT_THAT([&] { background.on_progress(Progress{.step = 3}); },
              throws<std::runtime_error>("no space at step 2"));
  EXPECT_THAT([&] { background.on_evaluation(3, Evaluation{}); },
              throws<std::runtime_error>("no space at step 2"));
  EXPECT_THAT([&] { background.on_finish(); }, throws<std::runtime_error>("no space at step 2"));
}

TEST(BackgroundObserver, StopsCallingTheObserverThatThrew) {
  std::promise<void> gate;  // all reports are queued before the first is delivered
  const auto before = std::make_shared<Listener>(gate.get_future().share());
  const auto full = std::make_shared<FullDisk>(1);
  const auto after = std::make_shared<Listener>();
  BackgroundObserver background({before, full, after});
  background.on_progress(Progress{.step = 1});
  background.on_progress(Progress{.step = 2});
  gate.set_value();
  EXPECT_THAT([&] { background.on_finish(); }, throws<std::runtime_error>("no space at step 1"));
  EXPECT_THAT(before->heard(), ElementsAre("step 1", "step 2", "finish"));
  EXPECT_THAT(after->heard(), ElementsAre("step 1", "step 2", "finish"));
  EXPECT_EQ(full->calls, 1);
}

TEST(BackgroundObserver, DestructorDeliversQueuedReports) {
  const auto listener = std::make_shared<Listener>();
  {
    BackgroundObserver background({listener});
    for (int64_t step = 1; step <= 3; ++step) background.on_progress(Progress{.step = step});
  }
  EXPECT_THAT(listener->heard(), ElementsAre("step 1", "step 2", "step 3"));
}

TEST(BackgroundObserver, DestructorDoesNotThrowAfterAFailure) {
  const auto full = std::make_shared<FullDisk>(1);
  {
    BackgroundObserver background({full});
    background.on_progress(Progress{.step = 1});
  }
  EXPECT_EQ(full->calls, 1);
}

TEST(BackgroundObserver, DestructorTimesOutOnAHangingObserver) {
  std::promise<void> gate;
  auto hanging = std::make_shared<Listener>(gate.get_future().share());
  const std::weak_ptr<Listener> left = hanging;
  {
    BackgroundObserver background({hanging}, std::chrono::milliseconds(1));
    background.on_progress(Progress{.step = 1});
    background.on_progress(Progress{.step = 2});
  }
  gate.set_value();  // the detached thread returns
  while (hanging->heard().size() < 2) std::this_thread::yield();
  EXPECT_THAT(hanging->heard(), ElementsAre("step 1", "step 2"));
  hanging.reset();
  while (!left.expired()) std::this_thread::yield();
}

/// Until the end of the scope, no thread can start: the default stack size of threads is too large.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST(BackgroundObserver, SignalsAreNotBlockedIfTheThreadCannotStart) {
  const auto blocked = [] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return std::pair(sigismember(&mask, SIGINT), sigismember(&mask, SIGTERM));
  };
  {
    const NoThreads none;
    EXPECT_THROW(BackgroundObserver({std::make_shared<Listener>()}), std::system_error);
  }
  EXPECT_EQ(blocked(), std::pair(0, 0));
  EXPECT_NO_THROW(BackgroundObserver({std::make_shared<Listener>()}));
  EXPECT_EQ(blocked(), std::pair(0, 0));
}

TEST(BackgroundObserver, DestructorOfAnUnusedObserverReturns) {
  BackgroundObserver({});
  BackgroundObserver nobody({});
  nobody.on_finish();
}

}  // namespace
}  // namespace attend::train
