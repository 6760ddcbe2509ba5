#pragma once

#include "attend/api.h"

#include <string_view>

namespace attend {

/// Throws InputError if `text` is not valid JSON (the message names offset, line and column), if an
/// object has a duplicate key, or if values are nested deeper than 100 levels. Many parsers accept
/// duplicate keys and silently ignore all but the last, and recurse for each level.
///
///     check_json(R"({"lr": 0.1, "lr": 0.2})");  // throws: duplicate key 'lr'
ATTEND_API void check_json(std::string_view text);

}  // namespace attend
