#include "terminal/activity.h"

#include "terminal/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace attend::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBeforeDrawing{2};
constexpr std::chrono::seconds kBetweenDrawings{1};
constexpr std::chrono::seconds kBeforeLines{10};
constexpr std::chrono::milliseconds kStopTimeout{500};  // a paused terminal blocks the thread

}  // namespace

struct Activity::State {
  std::string name;
  std::string unit;
  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  int64_t done = 0;
  int64_t count = 0;
  bool ended = false;

  void run();
  std::string text(int64_t seconds) const;
};

/// Prints the line until the step ends.
void Activity::State::run() {
  const bool terminal = error_is_terminal();
  const auto start = Clock::now();
  bool drawn = false;
  std::unique_lock lock(mutex);
  auto next = start + (terminal ? kBeforeDrawing : kBeforeLines);
  while (!changed.wait_until(lock, next, [&] { return ended; })) {
    const auto now = Clock::now();
    auto line = text(std::chrono::duration_cast<std::chrono::seconds>(now - start).count());
    lock.unlock();
    if (terminal) {
      // -1: some terminals wrap as soon as the last column is used.
      const auto columns = std::max(terminal_width(STDERR_FILENO) - 1, 0);
      write_error(kEraseLine + line.substr(0, static_cast<std::size_t>(columns)));
    } else {
      write_error(line + "\n");
    }
    drawn = terminal;
    next = now + (terminal ? kBetweenDrawings : kBetweenLines);
    lock.lock();
  }
  if (drawn) write_error(kEraseLine);
}

std::string Activity::State::text(int64_t seconds) const {
  const auto counts = count > 0 ? fmt::format(", {}/{} {}", done, count, unit) : "";
  return fmt::format("{}: {} s{}", name, seconds, counts);
}

namespace {

std::mutex last_activity_mutex;  // guards `last_activity`
std::weak_ptr<void> last_activity;

}  // namespace

Activity::Activity(std::string name, std::string unit)
    : state_(std::make_shared<State>()), thread_(kStopTimeout) {
  {
    const std::lock_guard lock(last_activity_mutex);
    last_activity = state_;
  }
  state_->name = std::move(name);
  state_->unit = std::move(unit);
  thread_.add([state = state_] { state->run(); });
}

Activity::~Activity() {
  const std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
}

void Activity::show_in_last(int64_t done, int64_t count, const std::string& unit) {
  std::shared_ptr<State> state;
  {
    const std::lock_guard lock(last_activity_mutex);
    state = std::static_pointer_cast<State>(last_activity.lock());
  }
  if (state == nullptr) return;
  const std::lock_guard lock(state->mutex);
  state->unit = unit;
  state->done = done;
  state->count = count;
}

void Activity::show(int64_t done, int64_t count) {
  const std::lock_guard lock(state_->mutex);
  state_->done = done;
  state_->count = count;
}

}  // namespace attend::app
