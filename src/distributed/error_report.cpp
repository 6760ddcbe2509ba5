#include "distributed/error_report.h"

#include "distributed/call_with_timeout.h"
#include "distributed/wait_for.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace attend::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kCause = "cause";                // the text that `cause` returns in all processes
constexpr auto kAuthor = "author";              // rank of the process that finds the cause
constexpr auto kMessage = "message";            // of rank 0
constexpr auto kNoticed = "noticed";            // by rank: knows that a process has ended
constexpr auto kUnresponsive = "unresponsive";  // by rank: does not answer
constexpr auto kNumUnresponsive = "num_unresponsive";
constexpr auto kDone = "done";    // number of processes that have read the message of rank 0
constexpr auto kAlive = "alive";  // by rank: a number that increases as long as it is alive
constexpr int kBeats = 5;         // signs of life within the grace period
constexpr int kMaxWaits = 3;      // times the grace period: until a store is taken to be gone

std::string key_of(const char* key, int64_t rank) {
  return fmt::format("{}/{}", key, rank);
}

std::string connection_has_failed(const std::string& error) {
  return fmt::format("the connection of the processes has failed: {}", error);
}

std::string end_of(int64_t rank, const std::string& message) {
  return fmt::format("rank {} has ended: {}", rank, message);
}

/// Sets the key to an increasing number, once in each period, until a stop is requested or the
/// store is gone.
void beat(const std::stop_token& stop, c10d::Store& store, const std::string& key,
          std::chrono::milliseconds period) {
  std::mutex mutex;
  std::condition_variable_any wake;  // by a stop request
  std::unique_lock lock(mutex);
  try {
    for (int64_t count = 0; !stop.stop_requested(); ++count) {
      store.set(key, fmt::format("{}", count));
      wake.wait_for(lock, stop, period, [] { return false; });
    }
  } catch (const std::exception&) {  // the main thread notices it too
  }
}

}  // namespace

/// What is said through the store. c10d waits without a timeout for the answer of a store whose
/// machine is gone, so each member function may wait forever.
class ErrorReport::Exchange {
 public:
  Exchange(c10::intrusive_ptr<c10d::Store> store, const Launch& launch,
           std::chrono::milliseconds grace_period)
      : store_(std::move(store)), launch_(launch), grace_period_(grace_period) {}

  std::string cause(const std::string& error);
  void announce(const std::string& message);
  bool is_new(const std::string& message);

 private:
  /// Waits until the other processes have noticed that one has ended; returns the ranks of those
  /// that do not answer. Called by one process: the number of requests is that of all processes.
  std::vector<int64_t> find_unresponsive();
  /// Returns the last sign of life of each process, by rank; empty if there is none.
  std::vector<std::string> signs_of_life();

  c10::intrusive_ptr<c10d::Store> store_;
  Launch launch_;
  std::chrono::milliseconds grace_period_;
};

std::vector<std::string> ErrorReport::Exchange::signs_of_life() {
  std::vector<std::string> signs;
  for (int64_t rank = 0; rank < launch_.world_size; ++rank) {
    const auto key = key_of(kAlive, rank);
    signs.push_back(store_->check({key}) ? store_->get_to_str(key) : "");
  }
  return signs;
}

std::vector<int64_t> ErrorReport::Exchange::find_unresponsive() {
  const auto before = signs_of_life();
  const auto end = Clock::now() + grace_period_;
  std::vector<int64_t> unresponsive;
  for (int64_t rank = 0; rank < launch_.world_size; ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (!wait_for(*store_, key_of(kNoticed, rank), left)) unresponsive.push_back(rank);
  }
  if (unresponsive.empty()) return {};
  const auto now = signs_of_life();
  // A process that computes for a long time notices it later, and is not the cause, unless all
  // processes are alive: then it has not answered within the timeout.
  std::vector<int64_t> dead;
  std::ranges::copy_if(unresponsive, std::back_inserter(dead), [&](int64_t rank) {
    const auto index = static_cast<std::size_t>(rank);
    return now[index] == before[index];
  });
  return dead.empty() ? unresponsive : dead;
}

std::string ErrorReport::Exchange::cause(const std::string& error) {
  store_->setTimeout(grace_period_);
  store_->set(key_of(kNoticed, launch_.rank), "");
  const auto own = fmt::format("{}", launch_.rank);
  if (store_->compareSet(kAuthor, "", own) != own) {
    // The author needs the grace period, and some time for its requests.
    wait_for(*store_, kCause, 2 * grace_period_);
    return store_->compareSet(kCause, "", connection_has_failed(error));
  }
  if (store_->check({kCause})) return store_->get_to_str(kCause);
  const auto unresponsive = find_unresponsive();
  for (const auto rank : unresponsive) store_->set(key_of(kUnresponsive, rank), "");
  store_->add(kNumUnresponsive, std::ssize(unresponsive));
  const bool several = unresponsive.size() > 1;
  return store_->compareSet(
      kCause, "",
      unresponsive.empty()
          ? connection_has_failed(error)
          : fmt::format("rank{} {} {} not answer: {}", several ? "s" : "",
                        fmt::join(unresponsive, ", "), several ? "do" : "does", error));
}

void ErrorReport::Exchange::announce(const std::string& message) {
  store_->setTimeout(grace_period_);
  store_->compareSet(kCause, "", end_of(launch_.rank, message));
  if (launch_.rank == 0) store_->set(kMessage, message);
  store_->set(key_of(kNoticed, launch_.rank), "");
}

bool ErrorReport::Exchange::is_new(const std::string& message) {
  if (launch_.rank == 0) {
    // The store may end with this process.
    const auto readers = launch_.world_size - 1 - store_->add(kNumUnresponsive, 0);
    wait_until(grace_period_, [&] { return store_->add(kDone, 0) >= readers; });
    return true;
  }
  if (store_->check({key_of(kUnresponsive, 0)}) || !wait_for(*store_, kMessage, grace_period_))
    return true;
  const auto of_rank_0 = store_->get_to_str(kMessage);
  const bool is_new =
      !of_rank_0.starts_with(message) && !end_of(/*rank=*/0, of_rank_0).starts_with(message);
  store_->add(kDone, 1);
  return is_new;
}

ErrorReport::ErrorReport(c10::intrusive_ptr<c10d::Store> store, const Launch& launch,
                         std::chrono::milliseconds grace_period)
    : launch_(launch),
      grace_period_(grace_period),
      exchange_(std::make_shared<Exchange>(store, launch, grace_period)),
      // A connection of its own: the main thread may wait in the other one.
      heartbeat_(
          [own = call_with_timeout(kMaxWaits * grace_period, [store] { return store->clone(); }),
           key = key_of(kAlive, launch.rank), period = grace_period / kBeats](
              const std::stop_token& stop) { beat(stop, *own, key, period); }) {}

template <typename Question>
auto ErrorReport::ask(const Question& question) const {
  if (!exchange_) throw std::runtime_error("the store does not answer");
  return call_with_timeout(kMaxWaits * grace_period_,
                           [exchange = exchange_, question] { return question(*exchange); });
}

std::string ErrorReport::cause(const std::string& error) {
  try {
    return ask([error](Exchange& exchange) { return exchange.cause(error); });
  } catch (const std::exception&) {
    exchange_ = nullptr;
    return fmt::format("{} at {}:{} does not answer: {}",
                       launch_.has_store ? "the store of the launcher" : "rank 0 with its store",
                       launch_.address, launch_.port, error);
  }
}

void ErrorReport::announce(const std::string& message) {
  try {
    ask([message](Exchange& exchange) { exchange.announce(message); });
  } catch (const std::exception&) {
    exchange_ = nullptr;
  }
}

bool ErrorReport::is_new(const std::string& message) {
  try {
    return ask([message](Exchange& exchange) { return exchange.is_new(message); });
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace attend::distributed
