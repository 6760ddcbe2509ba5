#include "distributed/store.h"

#include "distributed/call_with_timeout.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <string_view>

namespace attend::distributed {
namespace {

// Longer than a store takes to answer.
constexpr auto kAnswerTime = std::chrono::seconds(5);

}  // namespace

std::string error_text(const std::exception& error) {
  const auto* with_trace = dynamic_cast<const c10::Error*>(&error);
  std::string text = with_trace == nullptr ? error.what() : with_trace->what_without_backtrace();
  const auto begin = text.find("[/");
  const auto end = text.find("] ", begin);
  return end == std::string::npos ? text : text.erase(begin, end + 2 - begin);
}

std::runtime_error not_connected(const Launch& launch, const std::string& path,
                                 const std::exception& error) {
  return std::runtime_error(
      fmt::format("rank {} of {} cannot be connected to the others through {}: {}", launch.rank,
                  launch.world_size, path, error_text(error)));
}

std::string path_of_store(const Launch& launch) {
  return fmt::format("{}:{} (MASTER_ADDR, MASTER_PORT)", launch.address, launch.port);
}

c10::intrusive_ptr<c10d::Store> make_store(const Launch& launch,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(launch.port);
  store_options.isServer = launch.rank == 0 && !launch.has_store;
  store_options.numWorkers = static_cast<int>(launch.world_size);
  store_options.waitWorkers = false;
  store_options.timeout = timeout;
  store_options.multiTenant = true;  // `init` may be called again while the server exists
  const auto connect = [address = launch.address, store_options] {
    return c10::make_intrusive<c10d::TCPStore>(address, store_options);
  };
  try {
    // Another program may use the port, and not answer.
    const auto store = call_with_timeout(timeout + kAnswerTime, connect);
    return c10::make_intrusive<c10d::PrefixStore>("attend/" + launch.job, store);
  } catch (const std::exception& error) {
    const bool is_of_rank_0 = launch.rank > 0 && !launch.has_store;
    throw not_connected(
        launch, path_of_store(launch),
        std::runtime_error((is_of_rank_0 ? "rank 0 has not started, or does not answer: " : "") +
                           error_text(error)));
  }
}

std::string value_at_first_start(const Launch& launch, std::chrono::milliseconds timeout,
                                 const std::string& key, const std::string& value) {
  if (!launch.has_store) return value;
  const auto exchange = [store = make_store(launch, timeout), key, value] {
    // With a prefix, since compareSet takes an empty value for none.
    return store->compareSet("first/" + key, "", "value " + value);
  };
  const auto first = connected(launch, path_of_store(launch),
                               [&] { return call_with_timeout(timeout + kAnswerTime, exchange); });
  return first.substr(std::string_view("value ").size());
}

}  // namespace attend::distributed
