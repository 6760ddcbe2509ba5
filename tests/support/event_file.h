#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// A record of a TensorBoard event file.
struct Event {
  double wall_time = 0.0;  ///< seconds since 1970
  int64_t step = 0;
  std::string file_version;
  std::map<std::string, float> scalars;
  bool restarts = false;  ///< TensorBoard discards data of earlier files from `step` on
};

/// Reads an event file, independently of the code that writes it. Throws std::runtime_error for a
/// wrong checksum, a truncated record or an unknown protobuf wire type.
std::vector<Event> read_events(const std::filesystem::path& path);

}  // namespace attend
