#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace attend::app {

/// Parses JSON. Throws InputError in the same cases as `check_json`.
nlohmann::json parse_json(std::string_view text);

/// Returns a JSON value as one line or, if `indent` is not negative, as lines that are indented by
/// this number of spaces per level. Invalid UTF-8 in its texts is replaced by U+FFFD.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace attend::app
