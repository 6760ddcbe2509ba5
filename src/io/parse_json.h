#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

namespace attend {

/// Strictly: throws InputError for what is not JSON, saying where, and for a key that stands twice
/// in an object, which could hide something (JSON as such keeps the last one without a word), or
/// for more than 100 levels.
nlohmann::json parse_json(std::string_view text);

}  // namespace attend
