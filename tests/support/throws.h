#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cctype>
#include <string>
#include <string_view>

namespace attend {

/// Matches a text that contains `part` not only inside of a longer word or number: "4" is in
/// "T = 4, found 3", but not in "T = 14".
MATCHER_P(Names, part, fmt::format("{} '{}'", negation ? "does not name" : "names", part)) {
  const std::string_view text = arg;
  const std::string_view name = part;
  const auto is_part_of_word = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    if (!is_part_of_word(at - 1) && !is_part_of_word(at + name.size())) return true;
  }
  return false;
}

/// Matches a callable that throws an `Error` whose message contains each of `parts`, in any order.
/// Pass the names, values, files and flags that the message must contain, not words of its
/// sentences, so that an edit of a sentence breaks no test.
///
///     EXPECT_THAT([&] { module(x); }, throws_naming<c10::ValueError>("embed_dim", "10", "3"));
template <typename Error, typename... Parts>
auto throws_naming(const Parts&... parts) {
  return testing::ThrowsMessage<Error>(testing::AllOf(Names(std::string(parts))...));
}

/// Matches a callable that throws an `Error` whose message contains `text`.
///
///     EXPECT_THAT([&] { module(x); }, throws<c10::ValueError>("E = 4, found [2, 3]"));
template <typename Error>
auto throws(const char* text) {
  return testing::ThrowsMessage<Error>(testing::HasSubstr(text));
}

}  // namespace attend
