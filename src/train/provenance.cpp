#include "train/provenance.h"

#include "io/utf8.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

namespace attend::train {
namespace {

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');)
    arguments.push_back(replace_invalid_utf8(argument));  // JSON strings are UTF-8
  // The folder of the program is often a path of this machine.
  if (!arguments.empty()) arguments[0] = std::filesystem::path(arguments[0]).filename();
  return arguments;
}

/// Returns the first "model name" in /proc/cpuinfo; not all architectures have one.
std::string cpu_model() {
  constexpr std::string_view kKey = "model name";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto value = line.find(": ");
    if (line.starts_with(kKey) && value != std::string::npos)
      return replace_invalid_utf8(line.substr(value + 2));
  }
  return {};
}

std::string os_name() {
  utsname names{};
  if (::uname(&names) != 0) return {};
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

}  // namespace

Provenance current_provenance() {
  return {.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
          .version = ATTEND_VERSION,
          .command = command_line(),
          .os = os_name(),
          .cpu = cpu_model(),
          .num_cpus = std::thread::hardware_concurrency()};
}

}  // namespace attend::train
