#include "distributed/launch.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace attend::distributed {
namespace {

constexpr int64_t kMax = std::numeric_limits<int>::max();

/// The variables of a launcher.
struct Launcher {
  const char* rank;
  const char* world_size;
  const char* local_world_size;
  const char* local_rank;
  const char* node;  // null: local_world_size is that of this machine, not a list of all machines
  std::array<const char*, 2> job;  // together the id of the job; null: not used
};

constexpr Launcher kTorchrun{"RANK",       "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                             "LOCAL_RANK", nullptr,      {"TORCHELASTIC_RUN_ID", nullptr}};
// mpirun in an allocation of Slurm starts its processes with srun: the variables of both are set.
constexpr Launcher kOpenMpi{"OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK",
                            nullptr,
                            {"PMIX_NAMESPACE", nullptr}};
// The variables of Slurm that contain STEP are set by srun only. SLURM_NTASKS is also set in a
// batch script, where a program that is started without srun is alone.
constexpr Launcher kSlurm{
    "SLURM_PROCID",  "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_LOCALID", "SLURM_NODEID",         {"SLURM_JOB_ID", "SLURM_STEP_ID"}};

/// Reads an integer at the beginning of `text`, and removes it; std::nullopt if there is none.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return value;
}

/// Removes `prefix` from the beginning of `text`; returns false if it is not there.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

int64_t number(const char* name, const std::string& text, int64_t min, int64_t max) {
  std::string_view rest = text;
  const auto value = take_number(rest);
  if (!value || !rest.empty() || *value < min || *value > max) {
    throw InputError(
        fmt::format("environment variable {}: found '{}', expected an integer from {} "
                    "to {}",
                    name, text, min, max));
  }
  return *value;
}

/// Returns the number of tasks on a node from a list of Slurm, such as "2(x3),1": two tasks on each
/// of three nodes, and one task on the fourth.
int64_t tasks_on_node(const char* name, const std::string& text, int64_t node, int64_t max) {
  std::string_view rest = text;
  for (auto nodes_left = node;;) {
    const auto tasks = take_number(rest);
    const bool is_repeated = take(rest, "(x");
    const auto nodes = is_repeated ? take_number(rest) : 1;
    if (!tasks || *tasks < 1 || *tasks > max || !nodes || (is_repeated && !take(rest, ")"))) break;
    if (nodes_left < *nodes) return *tasks;
    nodes_left -= *nodes;
    if (!take(rest, ",")) break;
  }
  throw InputError(
      fmt::format("environment variable {}: found '{}', expected numbers of tasks from 1 to {} for "
                  "at least {} nodes, such as 2(x3),1",
                  name, text, max, node + 1));
}

/// Returns the values of the variables `launcher.job`, joined; empty if there are none.
std::string job_of(const Launcher& launcher, const Environment& environment) {
  std::string job;
  for (const auto* name : launcher.job) {
    const auto value = name == nullptr ? std::nullopt : environment(name);
    // torchrun has this id without the option --rdzv-id.
    if (value && *value != "none") job += (job.empty() ? "" : ".") + *value;
  }
  return job;
}

/// Returns the number of processes on this machine; 1 if the launcher does not tell it.
int64_t local_world_size_of(const Launcher& launcher, const Environment& environment,
                            int64_t world_size) {
  const auto text = environment(launcher.local_world_size);
  if (!text) return 1;
  if (launcher.node == nullptr) return number(launcher.local_world_size, *text, 1, world_size);
  const auto node = number(launcher.node, environment(launcher.node).value_or("0"), 0, kMax);
  return tasks_on_node(launcher.local_world_size, *text, node, world_size);
}

/// Returns the number of this process on this machine.
int64_t local_rank_of(const Launcher& launcher, const Environment& environment,
                      const Launch& launch) {
  const bool is_size_known = environment(launcher.local_world_size).has_value();
  const auto max = (is_size_known ? launch.local_world_size : launch.world_size) - 1;
  if (const auto text = environment(launcher.local_rank))
    return number(launcher.local_rank, *text, 0, max);
  return launch.rank % launch.local_world_size;
}

/// Throws InputError if only one of the two variables is set.
void check_both(const Launcher& launcher, const Environment& environment) {
  const bool has_rank = environment(launcher.rank).has_value();
  if (has_rank == environment(launcher.world_size).has_value()) return;
  throw InputError(fmt::format(
      "the environment variable {} is set, but {} is not: set both, or none for a single process",
      has_rank ? launcher.rank : launcher.world_size,
      has_rank ? launcher.world_size : launcher.rank));
}

}  // namespace

std::optional<Launch> launch_of(const Environment& environment) {
  check_both(kTorchrun, environment);
  check_both(kOpenMpi, environment);
  // A batch script has the rank, but not the size.
  if (environment(kSlurm.world_size)) check_both(kSlurm, environment);
  for (const auto& launcher : {kTorchrun, kOpenMpi, kSlurm}) {
    const auto rank = environment(launcher.rank);
    const auto world_size = environment(launcher.world_size);
    if (!rank || !world_size) continue;
    Launch launch;
    launch.world_size = number(launcher.world_size, *world_size, 1, kMax);
    launch.rank = number(launcher.rank, *rank, 0, launch.world_size - 1);
    launch.has_store = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    if (launch.world_size == 1 && !launch.has_store) return launch;
    launch.local_world_size = local_world_size_of(launcher, environment, launch.world_size);
    launch.local_rank = local_rank_of(launcher, environment, launch);
    launch.job = job_of(launcher, environment);
    const auto required = [&](const char* name) {
      const auto value = environment(name);
      if (!value || value->empty()) {
        throw InputError(
            fmt::format("{} is {}, but the environment variable {} is not set; "
                        "MASTER_ADDR and MASTER_PORT are the address of rank 0 and a "
                        "free port on its machine",
                        launcher.world_size, *world_size, name));
      }
      return *value;
    };
    launch.address = required("MASTER_ADDR");
    launch.port = number("MASTER_PORT", required("MASTER_PORT"), 1, 65535);
    return launch;
  }
  return std::nullopt;
}

std::optional<Launch> launch_of_this_process() {
  return launch_of([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace attend::distributed
