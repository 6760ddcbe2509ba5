#include "distributed/launch.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

namespace attend::distributed {
namespace {

/// The variables of a launcher.
struct Launcher {
  const char* rank;
  const char* world_size;
  const char* local_world_size;
};

// SLURM_STEP_NUM_TASKS is set by srun only. SLURM_NTASKS is also set in a batch script, where a
// program that is started without srun is alone.
constexpr std::array kLaunchers{
    Launcher{"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}};

int64_t number(const char* name, const std::string& text, int64_t min, int64_t max) {
  int64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < min || value > max) {
    throw InputError(
        fmt::format("environment variable {}: found '{}', expected an integer from {} "
                    "to {}",
                    name, text, min, max));
  }
  return value;
}

}  // namespace

std::optional<Launch> launch_of(const Environment& environment) {
  for (const auto& launcher : kLaunchers) {
    const auto rank = environment(launcher.rank);
    const auto world_size = environment(launcher.world_size);
    if (!rank || !world_size) continue;
    constexpr int64_t kMaxSize = std::numeric_limits<int>::max();
    Launch launch;
    launch.world_size = number(launcher.world_size, *world_size, 1, kMaxSize);
    launch.rank = number(launcher.rank, *rank, 0, launch.world_size - 1);
    if (const auto local = environment(launcher.local_world_size))
      launch.local_world_size = number(launcher.local_world_size, *local, 1, launch.world_size);
    launch.has_store = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    if (launch.world_size == 1 && !launch.has_store) return launch;
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
