#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attend::train {

/// Record of when, by which program and on which machine a run was created. Contains no host name
/// and no user name, since runs are published.
struct Provenance {
  std::string created;               ///< time in UTC, as in ISO 8601: 2026-01-31T12:00:00Z
  std::string version;               ///< version of this library
  std::vector<std::string> command;  ///< file name of the program, and its arguments
  std::string os;                    ///< name and release of the kernel, and the architecture
  std::string cpu;                   ///< model of the CPU; empty if unknown
  int64_t num_cpus = 0;              ///< number of logical CPUs that the process may use
};

/// Returns the provenance of a run that this process creates now. On Linux, the command line is
/// read from /proc/self/cmdline, so it is also known if a program other than `attend` creates the
/// run; elsewhere, `command` is empty.
Provenance current_provenance();

}  // namespace attend::train
