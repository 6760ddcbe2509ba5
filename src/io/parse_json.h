#pragma once

#include "attend/api.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace attend {

/// Parses JSON strictly. Throws InputError if the text is not valid JSON (with the position), for
/// duplicate keys in an object (plain JSON parsers silently keep the last one), and for more than
/// 100 levels of nesting.
ATTEND_API nlohmann::json parse_json(std::string_view text);

}  // namespace attend
