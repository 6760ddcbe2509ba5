#pragma once

#include <gtest/gtest.h>

namespace attend {

/// Whether subwords can be used in this build.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSubwordsWork = false;
#else
inline constexpr bool kSubwordsWork = true;
#endif

/// Tests of subwords, skipped where these do not work.
class SubwordTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kSubwordsWork) GTEST_SKIP() << "subwords do not work with the address sanitizer";
  }
};

}  // namespace attend
