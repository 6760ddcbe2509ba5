#pragma once

#include <string>
#include <string_view>

namespace attend {

/// Up to `most` bytes of any value.
std::string random_bytes(int64_t most);

/// Up to `most` pieces of UTF-8: words, spaces, tabs, line breaks, letters and signs of many
/// scripts, emoji, and code points drawn from all there are.
std::string random_text(int64_t most);

/// The bytes with one to four places changed, removed, doubled, or cut off after.
std::string damaged(std::string bytes);

}  // namespace attend
