#pragma once

#include "attend/api.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace attend {

/// Parses JSON strictly. Throws InputError if the text is not valid JSON (the message names offset,
/// line and column), if an object has a duplicate key, or if values are nested deeper than 100
/// levels. Many parsers accept duplicate keys and silently ignore all but the last.
ATTEND_API nlohmann::json parse_json(std::string_view text);

/// Returns a JSON value as one line or, if `indent` is not negative, as lines that are indented by
/// this number of spaces per level. Invalid UTF-8 in its texts is replaced by U+FFFD.
ATTEND_API std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// Returns the message of an exception of nlohmann::json without its name and number, such as
/// "[json.exception.type_error.302] ".
ATTEND_API std::string message_of(const nlohmann::json::exception& error);

}  // namespace attend
