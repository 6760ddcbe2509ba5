#include "distributed/last_words.h"

#include "distributed/wait_for.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attend::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kCause = "cause";      // the text that `cause` returns in all processes
constexpr auto kMessage = "message";  // of rank 0
constexpr auto kNoticed = "noticed";  // by rank: knows that a process has ended
constexpr auto kDone = "done";        // by rank: has read the message of rank 0

std::string key_of(const char* key, int64_t rank) {
  return fmt::format("{}/{}", key, rank);
}

}  // namespace

LastWords::LastWords(c10::intrusive_ptr<c10d::Store> store, const Launch& launch,
                     std::chrono::milliseconds patience)
    : store_(std::move(store)), launch_(launch), patience_(patience) {}

std::vector<int64_t> LastWords::without(const char* key) {
  const auto end = Clock::now() + patience_;
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < launch_.world_size; ++rank) {
    if (rank == launch_.rank || std::ranges::find(silent_, rank) != silent_.end()) continue;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (!wait_for(*store_, key_of(key, rank), left)) missing.push_back(rank);
  }
  return missing;
}

std::string LastWords::cause(const std::string& error) {
  try {
    store_->setTimeout(patience_);
    store_->set(key_of(kNoticed, launch_.rank), "");
    if (!store_->check({kCause})) silent_ = without(kNoticed);
    const auto text =
        silent_.empty()
            ? fmt::format("the connection of the processes has failed: {}", error)
            : fmt::format("rank{} {} {} not answer: {}", silent_.size() > 1 ? "s" : "",
                          fmt::join(silent_, ", "), silent_.size() > 1 ? "do" : "does", error);
    return store_->compareSet(kCause, "", text);
  } catch (const std::exception&) {
    silent_ = {0};
    return fmt::format("{} at {}:{} does not answer: {}",
                       launch_.has_store ? "the store of the launcher" : "rank 0 with its store",
                       launch_.address, launch_.port, error);
  }
}

void LastWords::announce(const std::string& message) {
  try {
    store_->setTimeout(patience_);
    store_->compareSet(kCause, "", fmt::format("rank {} has ended: {}", launch_.rank, message));
    if (launch_.rank == 0) store_->set(kMessage, message);
    store_->set(key_of(kNoticed, launch_.rank), "");
  } catch (const std::exception&) {  // the store is gone
    silent_ = {0};
  }
}

bool LastWords::is_new(const std::string& message) {
  if (launch_.rank > 0 && std::ranges::find(silent_, 0) != silent_.end()) return true;
  try {
    if (launch_.rank == 0) {
      without(kDone);  // the store may end with this process
      return true;
    }
    if (!wait_for(*store_, kMessage, patience_)) return true;
    const bool is_new = !store_->get_to_str(kMessage).starts_with(message);
    store_->set(key_of(kDone, launch_.rank), "");
    return is_new;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace attend::distributed
