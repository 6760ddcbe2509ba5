#pragma once

#include <gtest/gtest.h>

namespace attend {

/// False if this build does not support subword tokenizers.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSubwordsWork = false;
#else
inline constexpr bool kSubwordsWork = true;
#endif

/// Fixture for tests of subword tokenizers, skipped in builds that do not support them.
class SubwordTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kSubwordsWork) GTEST_SKIP() << "subword tokenizers do not work with AddressSanitizer";
  }
};

}  // namespace attend
