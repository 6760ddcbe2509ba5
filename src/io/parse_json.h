#pragma once

#include "attend/api.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace attend {

/// Parses JSON. Throws InputError in the same cases as `check_json`.
ATTEND_API nlohmann::json parse_json(std::string_view text);

/// Does the same, and keeps the order of keys.
ATTEND_API nlohmann::ordered_json parse_ordered_json(std::string_view text);

/// Returns the message of an exception of nlohmann::json without its name and number, such as
/// "[json.exception.type_error.302] ".
ATTEND_API std::string message_of(const nlohmann::json::exception& error);

}  // namespace attend
