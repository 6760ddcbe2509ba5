#include "distributed/rendezvous.h"

#include "attend/input_error.h"
#include "distributed/call_with_timeout.h"
#include "distributed/wait_for.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <chrono>
#include <random>
#include <sstream>
#include <stdexcept>

namespace attend::distributed {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

constexpr auto kAnswer = "answer";
constexpr char kEqual = ' ', kDifferent = 'd', kAbsent = 'a';
// Longer than it takes rank 0 to answer.
constexpr auto kMargin = std::chrono::seconds(5);

/// Key of a random text of the process that has this rank now. Processes of an earlier start have
/// other texts.
std::string join_key(int64_t rank) {
  return fmt::format("join/{}", rank);
}

/// Key of the id of the session to which rank 0 has invited the process with this text.
std::string session_key(const std::string& id) {
  return fmt::format("session/{}", id);
}

std::string properties_key(int64_t rank) {
  return fmt::format("properties/{}", rank);
}

std::string read_key(int64_t rank) {
  return fmt::format("read/{}", rank);
}

std::string random_text() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

StorePtr store_of_session(const StorePtr& store, const std::string& session) {
  return c10::make_intrusive<c10d::PrefixStore>(session, store);
}

double timeout_seconds(const c10d::Store& store) {
  return std::chrono::duration<double>(store.getTimeout()).count();
}

/// Describes the first property of `rank` that differs from that of rank 0; empty if there is none.
/// `found`: the properties of `rank`, one a line.
std::string difference(int64_t rank, const std::string& found,
                       const std::vector<std::string>& properties) {
  std::istringstream lines(found);
  std::string line;
  for (const auto& expected : properties) {
    std::getline(lines, line);
    if (line != expected) return fmt::format("rank {} has {}, rank 0 has {}", rank, line, expected);
  }
  return "";
}

/// Invites all processes to the session until they have joined it, and compares them. Returns
/// the answer to them: its kind and a message.
std::string answer_to_all(c10d::Store& store, c10d::Store& in_session, const Launch& launch,
                          const std::string& session, const std::vector<std::string>& properties) {
  std::vector<int64_t> absent;
  for (int64_t rank = 1; rank < launch.world_size; ++rank) absent.push_back(rank);
  std::string text;  // describes the first difference
  const auto has_joined = [&](int64_t rank) {
    if (in_session.check({properties_key(rank)})) {
      const auto found = difference(rank, in_session.get_to_str(properties_key(rank)), properties);
      if (text.empty()) text = found;
      return true;
    }
    // The text of this rank may still change: now it may be that of a process of an earlier start.
    if (store.check({join_key(rank)}))
      store.set(session_key(store.get_to_str(join_key(rank))), session);
    return false;
  };
  const auto all_have_joined = [&] {
    std::erase_if(absent, has_joined);
    return absent.empty();
  };
  wait_until(store.getTimeout(), [&] { return all_have_joined() || !text.empty(); });
  if (!text.empty()) {
    wait_until(std::min<std::chrono::milliseconds>(kMargin, store.getTimeout()), all_have_joined);
    return kDifferent + text;
  }
  if (absent.empty()) return std::string(1, kEqual);
  const bool several = absent.size() > 1;
  return kAbsent + fmt::format("rank{} {} of {} {} not started within {} s", several ? "s" : "",
                               fmt::join(absent, ", "), launch.world_size, several ? "have" : "has",
                               timeout_seconds(store));
}

/// Waits for the invitation of rank 0. Returns the id of the session.
std::string invitation(c10d::Store& store, const Launch& launch) {
  const auto id = random_text();
  store.set(join_key(launch.rank), id);
  if (wait_for(store, session_key(id), store.getTimeout()))
    return store.get_to_str(session_key(id));
  const auto of_job = launch.job.empty() ? "" : fmt::format(" of the job {}", launch.job);
  throw std::runtime_error(
      fmt::format("rank 0{} has not started, or does not expect rank {}, within {} s", of_job,
                  launch.rank, timeout_seconds(store)));
}

/// Waits for the answer of rank 0, which may wait for another process as long as the timeout.
std::string answer_in(c10d::Store& in_session) {
  if (wait_for(in_session, kAnswer, in_session.getTimeout() + kMargin))
    return in_session.get_to_str(kAnswer);
  throw std::runtime_error(
      fmt::format("rank 0 has not answered within {} s", timeout_seconds(in_session)));
}

/// As `rendezvous`; waits forever for a store that does not answer.
StorePtr rendezvous_in(const StorePtr& store, const Launch& launch,
                       const std::vector<std::string>& properties) {
  const bool is_rank_0 = launch.rank == 0;
  const auto session = is_rank_0 ? random_text() : invitation(*store, launch);
  auto in_session = store_of_session(store, session);
  in_session->set(properties_key(launch.rank), fmt::format("{}", fmt::join(properties, "\n")));
  if (is_rank_0)
    in_session->set(kAnswer, answer_to_all(*store, *in_session, launch, session, properties));
  const auto answer = answer_in(*in_session);
  if (answer[0] == kEqual) return in_session;
  in_session->set(read_key(launch.rank), "");
  // The store may end with this process: those that have started read the answer first.
  for (int64_t rank = 1; is_rank_0 && rank < launch.world_size; ++rank) {
    if (in_session->check({properties_key(rank)}))
      wait_for(*in_session, read_key(rank), std::chrono::milliseconds(1000));
  }
  if (answer[0] == kDifferent) throw InputError(answer.substr(1));
  throw std::runtime_error(answer.substr(1));
}

}  // namespace

StorePtr rendezvous(const StorePtr& store, const Launch& launch,
                    const std::vector<std::string>& properties) {
  // The invitation and the answer take at most the timeout and the margin each.
  return call_with_timeout(2 * (store->getTimeout() + kMargin),
                           [=] { return rendezvous_in(store, launch, properties); });
}

}  // namespace attend::distributed
