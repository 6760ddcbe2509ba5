#include "attend/train/nearest_name.h"

#include "train/edit_distance.h"

#include <gtest/gtest.h>

namespace attend::train {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("layers", "layerz"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2U);
  EXPECT_EQ(edit_distance("sotr", "sort"), 1U);
}

TEST(NearestName, ComparesWithoutDashesTablesAndCase) {
  EXPECT_EQ(nearest_name("--Max_Steps", {"--lr", "--max-steps"}), "--max-steps");
  EXPECT_EQ(nearest_name("lr", {"model.bias", "training.lr"}), "training.lr");
  EXPECT_EQ(nearest_name("training.embed_dim", {"model.embed_dim", "training.lr"}),
            "model.embed_dim");
  EXPECT_EQ(nearest_name("[trainig]", {"[data]", "[training]"}), "[training]");
}

TEST(NearestName, FindsSynonymsThatAreAmongTheNames) {
  EXPECT_EQ(nearest_name("--learning-rate", {"--lr", "--seed"}), "--lr");
  EXPECT_EQ(nearest_name("learning_rate", {"training.lr"}), "training.lr");
  EXPECT_EQ(nearest_name("--max-length", {"--max-new-tokens"}), "--max-new-tokens");
  EXPECT_EQ(nearest_name("--max-length", {"--max-seq-len"}), "--max-seq-len");
  EXPECT_EQ(nearest_name("--wd", {"--lr"}), "");
}

TEST(NearestName, MatchesWords) {
  const std::vector<std::string> flags{"--lr", "--num-layers", "--num-decoder-layers", "--dropout"};
  EXPECT_EQ(nearest_name("--layer", flags), "--num-layers");
  EXPECT_EQ(nearest_name("--layerz", flags), "--num-layers");
  EXPECT_EQ(nearest_name("--token-dropout", flags), "--dropout");
  EXPECT_EQ(nearest_name("model.layer", {"model.bias", "model.num_layers"}), "model.num_layers");
  EXPECT_EQ(nearest_name("--type", {"--row-type", "--column-type"}), "") << "which of the two?";
}

TEST(NearestName, MatchesTypingErrors) {
  EXPECT_EQ(nearest_name("--lrr", {"--lr", "--seed"}), "--lr");
  EXPECT_EQ(nearest_name("sotr", {"copy", "sort"}), "sort");
  EXPECT_EQ(nearest_name("--optmizer", {"--out", "--optimizer"}), "--optimizer");
}

TEST(NearestName, IsEmptyIfNoNameIsNear) {
  EXPECT_EQ(nearest_name("nope", {"copy", "sort"}), "");
  EXPECT_EQ(nearest_name("abcdefgh", {"abcd"}), "");
  EXPECT_EQ(nearest_name("--beam-size", {"--vocab-size", "--batch-size"}), "");
  EXPECT_EQ(nearest_name("--save-dir", {"--head-dim"}), "");
  EXPECT_EQ(nearest_name("--trim-rate", {"--output-gate"}), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_EQ(nearest_name("--", {"--lr"}), "");
}

TEST(DidYouMean, QuotesTheNearestName) {
  EXPECT_EQ(did_you_mean("--num-layer", {"--num-heads", "--num-layers"}),
            "; did you mean '--num-layers'?");
  EXPECT_EQ(did_you_mean("foo", {"copy", "sort"}), "");
}

}  // namespace
}  // namespace attend::train
