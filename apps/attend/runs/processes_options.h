#pragma once

#include "attend/distributed/init.h"

#include <CLI/App.hpp>

#include <cstdint>

namespace attend::app {

/// Values of the options of `attend train` for several processes.
struct ProcessesArguments {
  double timeout = 1800.0;  ///< seconds
  int64_t bucket_mb = 25;   ///< MiB
  distributed::Backend backend = distributed::Backend::automatic;
  distributed::Compression compression = distributed::Compression::none;
  bool shard_optimizer = false;

  /// Returns the options with which the processes are connected.
  distributed::Options connection() const;
};

/// Adds the options, which set `arguments`: --ddp-timeout and others.
void add_processes_options(CLI::App& command, ProcessesArguments& arguments);

}  // namespace attend::app
