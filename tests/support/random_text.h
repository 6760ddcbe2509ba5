#pragma once

#include <string>
#include <string_view>

namespace attend {

/// Draws up to `max_length` random bytes.
std::string random_bytes(int64_t max_length);

/// Draws up to `max_length` pieces of UTF-8: words, whitespace, letters and symbols of many
/// scripts, emoji, and random code points.
std::string random_text(int64_t max_length);

/// Returns `bytes` with up to four random changes: bytes replaced, removed or duplicated, or the
/// end cut off.
std::string damaged(std::string bytes);

}  // namespace attend
