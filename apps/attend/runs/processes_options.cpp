#include "runs/processes_options.h"

#include "options.h"

#include <chrono>
#include <string>

namespace attend::app {

distributed::Options ProcessesArguments::connection() const {
  return {.timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * timeout)),
          .bucket_bytes = bucket_mb << 20,
          .backend = backend,
          .compression = compression};
}

void add_processes_options(CLI::App& command, ProcessesArguments& arguments) {
  constexpr auto kGroup = "Training, several processes";
  constexpr Requirement kTimeout{"be between 1 and 1000000",
                                 [](double x) { return x >= 1 && x <= 1e6; }};
  constexpr Requirement kMegabytes{"be between 1 and 100000",
                                   [](double x) { return x >= 1 && x <= 1e5; }};
  add_number(command, "--ddp-timeout", arguments.timeout, kTimeout,
             "time after which a process that waits for another one ends with an error", "SECONDS")
      ->group(kGroup);
  add_number(command, "--ddp-bucket-mb", arguments.bucket_mb, kMegabytes,
             "gradients are summed in buckets of at most this size, during the backward pass",
             "MIB")
      ->group(kGroup);
  command
      .add_option_function<std::string>(
          "--ddp-backend",
          [&](const std::string& text) {
            arguments.backend = parse_choice<distributed::Backend>("--ddp-backend", text);
          },
          "library that transports data on GPUs between the processes; auto: nccl if each process "
          "has a GPU of its own, otherwise gloo. Data on the CPU is transported by gloo")
      ->type_name(choices<distributed::Backend>())
      ->default_str(std::string(to_string(arguments.backend)))
      ->group(kGroup);
  command
      .add_option_function<std::string>(
          "--ddp-compression",
          [&](const std::string& text) {
            arguments.compression =
                parse_choice<distributed::Compression>("--ddp-compression", text);
          },
          "bf16: gradients are rounded to bfloat16 before they are sent and summed")
      ->type_name(choices<distributed::Compression>())
      ->default_str(std::string(to_string(arguments.compression)))
      ->group(kGroup);
  command
      .add_flag("--ddp-shard-optimizer", arguments.shard_optimizer,
                "each process keeps the optimizer's state of a part of the parameters only (ZeRO "
                "stage 1), with the same results")
      ->group(kGroup);
}

}  // namespace attend::app
