#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// A record of an event file of TensorBoard.
struct Event {
  double wall_time = 0.0;  ///< seconds since 1970
  int64_t step = 0;
  std::string file_version;
  std::map<std::string, float> scalars;
  bool restarts = false;  ///< what earlier files hold from this step on is to be forgotten
};

/// Reads an event file without any of the code that writes it. Throws std::runtime_error for a
/// wrong checksum, a torn record or a field of an unknown kind.
std::vector<Event> read_events(const std::filesystem::path& path);

}  // namespace attend
