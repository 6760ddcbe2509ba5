#pragma once

#include "attend/api.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace attend::distributed {

/// Variables that a launcher sets for each process that it starts: the number of the process, and
/// the store through which the processes find each other.
struct Launch {
  int64_t rank = 0;              ///< number of this process
  int64_t world_size = 1;        ///< number of processes
  int64_t local_world_size = 1;  ///< number of processes on this machine
  int64_t local_rank = 0;        ///< number of this process on this machine
  std::string job;      ///< id that the launcher gives to all these processes alone; may be empty
  std::string address;  ///< machine of the store through which the processes find each other
  int64_t port = 0;     ///< port of the store
  bool has_store = false;  ///< the launcher runs the store; otherwise, rank 0 does
};

/// Reads the variables of the launcher of this process, see `init`; std::nullopt without a
/// launcher. Throws InputError if a variable is missing or invalid. Connects to no other process.
///
///     const auto launch = attend::distributed::launch_of_this_process();
///     const bool is_rank_0 = !launch || launch->rank == 0;
ATTEND_API std::optional<Launch> launch_of_this_process();

/// Returns the `value` for `key` at the first start of this launch, also if the launcher has
/// started the processes again since then. Returns `value` if the launcher has no store, which
/// would survive the processes. Called by one process. Throws std::runtime_error if the store
/// does not answer within the timeout.
ATTEND_API std::string value_at_first_start(const Launch& launch, std::chrono::milliseconds timeout,
                                            const std::string& key, const std::string& value);

}  // namespace attend::distributed
