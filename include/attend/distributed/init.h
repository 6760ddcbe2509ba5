#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/train/processes.h"

#include <array>
#include <chrono>
#include <memory>
#include <string_view>

namespace attend {
namespace distributed {

/// Library of c10d that transports the data between the processes.
enum class Backend {
  automatic,  ///< nccl for tensors on GPUs if each process has a GPU of its own, otherwise gloo
  gloo,       ///< through the CPU
  nccl,       ///< directly between GPUs; tensors on the CPU are sent with gloo
};

/// Compression of the gradients that the processes send to each other.
enum class Compression {
  none,  ///< none: gradients are sent in their dtype
  bf16,  ///< rounded to bfloat16, which halves the bytes of float32; their sums are rounded too
};

}  // namespace distributed

template <>
struct EnumNames<distributed::Backend> {
  static constexpr std::array<std::string_view, 3> names{"auto", "gloo", "nccl"};
};
template <>
struct EnumNames<distributed::Compression> {
  static constexpr std::array<std::string_view, 2> names{"none", "bf16"};
};

namespace distributed {

/// Options of `init`.
struct Options {
  /// Time after which a process that waits for another one gives up, also at the start.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// Gradients are summed in buckets of at most this size, each as soon as the backward pass has
  /// computed it; bytes.
  int64_t bucket_bytes = int64_t{25} << 20;
  Backend backend = Backend::automatic;         ///< library that sends tensors on GPUs
  Compression compression = Compression::none;  ///< of the gradients that are sent
};

/// Connects the processes that a launcher has started, and returns them; `train::single_process()`
/// if this process was started without a launcher, or alone. The launchers are torchrun and others
/// that set RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, `srun` of Slurm, and
/// `mpirun` of Open MPI. For the last two, set MASTER_ADDR and MASTER_PORT to the address of rank 0
/// and a free port. The environment variable GLOO_SOCKET_IFNAME contains the network interfaces of
/// Gloo, separated by commas; without it, Gloo uses the address of the machine's name.
///
/// Sets the current GPU of the calling thread, so that the device "cuda" without a number is
/// another GPU in each process of a machine, in the order of LOCAL_RANK or the same variable of the
/// other launchers. Several processes share a GPU if there are more of them.
///
///     train::TrainingRun run("runs/vit", objective, config,
///                            {.processes = attend::distributed::init()});
///     run.finish(run.train());
///
/// If an exception ends the program, call `train::Processes::end_with_error` with its message, so
/// that the other processes print it. A program may call `init` again, for example with other
/// options, in all processes; the result of the first call must exist until the second returns.
///
/// Throws InputError if a variable is missing or invalid, if the backend is not supported, or if
/// the number of processes or the version of this library or of LibTorch differs between the
/// processes. Throws std::runtime_error if the processes cannot be connected within the timeout.
ATTEND_API std::shared_ptr<train::Processes> init(const Options& options = {});

}  // namespace distributed
}  // namespace attend
