#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace attend {

using Random = std::mt19937_64;
using Entries = std::map<std::string, std::string>;

/// Changes, inserts, duplicates or removes random bytes: 1 to 4 times.
std::string mutated_bytes(std::string bytes, Random& random);

/// Replaces, removes or duplicates random values: 1 to 3 times. Prefers integers.
nlohmann::json mutated_json(nlohmann::json value, Random& random);

/// Changes a field in the headers of a zip archive: a size, an offset, a method, ... If a size or
/// the content of an entry changes, the checksums in the headers are corrected in most cases, so
/// that a reader does not stop at them.
std::string mutated_zip_headers(std::string bytes, Random& random);

/// Changes the content of a random entry whose name contains `part` (of any entry if there is
/// none), or removes, renames or copies an entry.
Entries mutated_entries(Entries entries, const std::string& part, Random& random);

}  // namespace attend
