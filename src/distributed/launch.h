#pragma once

#include "attend/api.h"
#include "attend/distributed/init.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace attend::distributed {

/// What a launcher tells a process that it starts.
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

/// Returns the value of an environment variable.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// Reads the variables of the launcher; std::nullopt without a launcher. Throws InputError if a
/// variable is missing or invalid.
ATTEND_API std::optional<Launch> launch_of(const Environment& environment);
/// Reads the variables of the launcher of this process.
ATTEND_API std::optional<Launch> launch_of_this_process();

/// Returns the `value` for `key` at the first start of this launch, also if the launcher has
/// started the processes again since then. Returns `value` if the launcher has no store, which
/// would survive the processes. Called by one process. Throws std::runtime_error if the store
/// does not answer within the timeout.
ATTEND_API std::string value_at_first_start(const Launch& launch, std::chrono::milliseconds timeout,
                                            const std::string& key, const std::string& value);

/// Connects the processes of a launch, which has more than one. Throws as `init` does.
ATTEND_API std::shared_ptr<train::Processes> connect(const Launch& launch, const Options& options);

}  // namespace attend::distributed
