#pragma once

#include "attend/distributed/init.h"
#include "attend/train/processes.h"
#include "distributed/launch.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attend::distributed {

/// Returns the launch of rank 0 of processes on this machine, with a free port.
Launch local_launch(int64_t size);

/// Calls `work` in a thread for each rank. Returns the messages of the exceptions, by rank; empty
/// for a rank without an exception.
std::vector<std::string> in_threads(int64_t size, const std::function<void(int64_t rank)>& work);

/// Calls `work` with each of `size` connected processes, which are threads here.
std::vector<std::string> in_processes(
    int64_t size, const std::function<void(const std::shared_ptr<train::Processes>&)>& work,
    const Options& options = {.timeout = std::chrono::minutes(2)});

}  // namespace attend::distributed
