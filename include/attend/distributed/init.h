#pragma once

#include "attend/api.h"
#include "attend/train/processes.h"

#include <chrono>
#include <memory>

namespace attend::distributed {

/// Options of `init`.
struct Options {
  /// Time after which a process that waits for another one gives up, also at the start.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// Gradients are summed in groups of at most this size, each as soon as the backward pass has
  /// computed it; bytes.
  int64_t bucket_bytes = int64_t{25} << 20;
};

/// Connects the processes that a launcher has started, and returns them; `train::single_process()`
/// if this process was started without a launcher, or alone. The launchers are torchrun and others
/// that set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, `srun` of Slurm, and
/// `mpirun` of Open MPI. For the last two, set MASTER_ADDR and MASTER_PORT to the address of rank 0
/// and a free port. The transport is c10d's ProcessGroupGloo, for modules on the CPU. The
/// environment variable GLOO_SOCKET_IFNAME selects the network interface.
///
///     auto run = train::TrainingRun::begin_or_resume(
///         "runs/vit", objective, config, {.processes = attend::distributed::init()});
///     run.finish(run.train());
///
/// Throws InputError if a variable is missing or invalid, std::runtime_error if the processes
/// cannot be connected within the timeout.
ATTEND_API std::shared_ptr<train::Processes> init(const Options& options = {});

}  // namespace attend::distributed
