#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cctype>
#include <string>
#include <string_view>

namespace attend {

/// Matches a text that contains `part` not only inside of a longer word or number: "4" is in
/// "T = 4, found 3", but not in "T = 14", "T = -4" or "T = 0.4".
MATCHER_P(Names, part, fmt::format("{} '{}'", negation ? "does not name" : "names", part)) {
  const std::string_view text = arg;
  const std::string_view name = part;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_part_of_word = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const auto end = at + name.size();
    const bool continues_a_number =
        at > 0 && is_digit(name.front()) && (text[at - 1] == '-' || text[at - 1] == '.');
    const bool is_continued = is_digit(name.back()) && end + 1 < text.size() && text[end] == '.' &&
                              is_digit(text[end + 1]);
    if (!continues_a_number && !is_continued && !is_part_of_word(at - 1) && !is_part_of_word(end))
      return true;
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
