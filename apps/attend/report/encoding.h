#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attend::app {

/// Maximum length of the label of a token in a report, in bytes.
inline constexpr std::size_t kMaxLabel = 64;

/// Returns `text` as valid UTF-8, and cut to about `max_bytes` bytes: "…" replaces the rest.
std::string shortened(const std::string& text, std::size_t max_bytes);

/// Encodes bytes as base64 (RFC 4648), with padding.
std::string to_base64(std::string_view bytes);

/// Rounds to 4 decimals, so that the JSON of a report is short.
double rounded(double value);

}  // namespace attend::app
