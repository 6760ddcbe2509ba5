#include "attend/nn/feed_forward.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

TEST(FeedForward, KeepsTheShape) {
  FeedForward feed_forward(FeedForwardOptions(8));
  EXPECT_EQ(feed_forward(torch::randn({2, 3, 8})).sizes(), torch::IntArrayRef({2, 3, 8}));
}

}  // namespace
}  // namespace attend
