#include "distributed/greeting.h"

#include "attend/input_error.h"
#include "distributed/wait_for.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <sstream>
#include <stdexcept>

namespace attend::distributed {
namespace {

constexpr auto kAnswer = "answer";
constexpr char kWelcome = ' ', kDifferent = 'd', kAbsent = 'a';

std::string greeting_key(int64_t rank) {
  return fmt::format("greeting/{}", rank);
}

std::string read_key(int64_t rank) {
  return fmt::format("read/{}", rank);
}

double timeout_seconds(const c10d::Store& store) {
  return std::chrono::duration<double>(store.getTimeout()).count();
}

/// Describes the first line of the greeting of `rank` that differs from that of rank 0; empty if
/// there is none.
std::string difference(int64_t rank, const std::string& greeting,
                       const std::vector<std::string>& properties) {
  std::istringstream lines(greeting);
  std::string line;
  for (const auto& expected : properties) {
    std::getline(lines, line);
    if (line != expected) return fmt::format("rank {} has {}, rank 0 has {}", rank, line, expected);
  }
  return "";
}

/// Waits for the greetings of all processes. Returns the answer to them: its kind and a message.
std::string answer_to_all(c10d::Store& store, const Launch& launch,
                          const std::vector<std::string>& properties) {
  for (int64_t rank = 1; rank < launch.world_size; ++rank) {
    if (!wait_for(store, greeting_key(rank), store.getTimeout())) {
      return kAbsent + fmt::format("rank {} of {} has not started within {} s", rank,
                                   launch.world_size, timeout_seconds(store));
    }
    const auto text = difference(rank, store.get_to_str(greeting_key(rank)), properties);
    if (!text.empty()) return kDifferent + text;
  }
  return std::string(1, kWelcome);
}

/// Waits for the answer of rank 0.
std::string answer_in(c10d::Store& store) {
  if (wait_for(store, kAnswer, store.getTimeout())) return store.get_to_str(kAnswer);
  throw std::runtime_error(
      fmt::format("rank 0 has not answered within {} s", timeout_seconds(store)));
}

}  // namespace

void greet(c10d::Store& store, const Launch& launch, const std::vector<std::string>& properties) {
  store.set(greeting_key(launch.rank), fmt::format("{}", fmt::join(properties, "\n")));
  if (launch.rank == 0) store.set(kAnswer, answer_to_all(store, launch, properties));
  const auto answer = answer_in(store);
  if (answer[0] == kWelcome) return;
  store.set(read_key(launch.rank), "");
  // The store may end with this process: those that have started read the answer first.
  for (int64_t rank = 1; launch.rank == 0 && rank < launch.world_size; ++rank) {
    if (store.check({greeting_key(rank)}))
      wait_for(store, read_key(rank), std::chrono::milliseconds(1000));
  }
  if (answer[0] == kDifferent) throw InputError(answer.substr(1));
  throw std::runtime_error(answer.substr(1));
}

}  // namespace attend::distributed
