#pragma once

#include "attend/api.h"

#include <string>
#include <string_view>

namespace attend::tokenizers {

/// Returns `text`, which must be valid UTF-8, without whitespace at both ends, as `str.strip` in
/// Python.
ATTEND_API std::string_view stripped(std::string_view text);

/// Returns `text`, which must be valid UTF-8, in lowercase, as `str.lower` in Python. The
/// normalizer Lowercase differs from it: a capital sigma at the end of a word becomes a final sigma
/// here.
ATTEND_API std::string lowercased(std::string_view text);

}  // namespace attend::tokenizers
