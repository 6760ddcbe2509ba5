#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace attend {

using Random = std::mt19937_64;
using Entries = std::map<std::string, std::string>;

/// Applies 1 to 4 mutations. Each mutation changes, inserts, duplicates or removes random bytes.
std::string mutated_bytes(std::string bytes, Random& random);

/// Applies 1 to 3 mutations. Each mutation replaces, removes or duplicates a random value, or
/// renames a random key. Integers are replaced more often than other values.
nlohmann::json mutated_json(nlohmann::json value, Random& random);

/// Changes a field in the headers of a zip archive, such as a size, an offset or a compression
/// method. Sometimes makes the same change in both headers of an entry. Sometimes changes the size
/// of an entry and sets the matching checksum, because a reader would reject a wrong checksum.
std::string mutated_zip_headers(std::string bytes, Random& random);

/// Changes the content of a random entry, or removes, renames or copies the entry. If any names
/// contain `part`, chooses an entry with such a name.
Entries mutated_entries(Entries entries, const std::string& part, Random& random);

}  // namespace attend
