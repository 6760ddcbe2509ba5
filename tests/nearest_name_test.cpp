#include "attend/nearest_name.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

TEST(NearestName, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("layers", "layerz"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2U);
}

TEST(NearestName, IsTheOneThatTakesTheFewestChanges) {
  EXPECT_EQ(nearest_name("--layer", {"--heads", "--layers", "--lr"}), "--layers");
  EXPECT_EQ(nearest_name("x", {"only"}), "only");
}

}  // namespace
}  // namespace attend
