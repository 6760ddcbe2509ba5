#include "nearest_name.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("layers", "layerz"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2U);
}

TEST(DidYouMean, SuggestsTheNearestName) {
  EXPECT_EQ(did_you_mean("--num-layer", {"--num-heads", "--num-layers", "--lr"}),
            "; did you mean '--num-layers'?");
}

TEST(DidYouMean, MatchesAWordOfAName) {
  const std::vector<std::string> flags{"--lr", "--num-layers", "--num-decoder-layers"};
  EXPECT_EQ(did_you_mean("--layers", flags), "; did you mean '--num-layers'?");
  EXPECT_EQ(did_you_mean("--layerz", flags), "; did you mean '--num-layers'?");
  EXPECT_EQ(did_you_mean("model.layer", {"model.bias", "model.num_layers"}),
            "; did you mean 'model.num_layers'?");
}

TEST(DidYouMean, IsEmptyIfNoNameIsNear) {
  EXPECT_EQ(did_you_mean("foo", {"copy", "sort"}), "");
  EXPECT_EQ(did_you_mean("abcdefgh", {"abcd"}), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
}

}  // namespace
}  // namespace attend
