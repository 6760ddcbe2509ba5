#pragma once

#include <gmock/gmock.h>

namespace attend {

/// Matches a callable that throws an `Error` whose message contains `text`.
///
///     EXPECT_THAT([&] { module(x); }, throws<c10::ValueError>("E = 4, found [2, 3]"));
template <typename Error>
auto throws(const char* text) {
  return testing::ThrowsMessage<Error>(testing::HasSubstr(text));
}

}  // namespace attend
