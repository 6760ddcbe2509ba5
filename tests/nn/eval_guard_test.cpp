#include "attend/nn/eval_guard.h"

#include "attend/nn/transformer_block.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

TEST(EvalGuard, RestoresTheModeOfEachModule) {
  TransformerBlock block(8, 2);
  auto feed_forward = block->feed_forward.get<FeedForward>();
  block->train();
  feed_forward->eval();
  feed_forward->dropout->train();  // below a module in eval mode
  {
    const EvalGuard eval(*block);
    for (const auto& module : block->modules()) EXPECT_FALSE(module->is_training());
  }
  EXPECT_TRUE(block->is_training());
  EXPECT_TRUE(block->attention->is_training());
  EXPECT_FALSE(feed_forward->is_training());
  EXPECT_TRUE(feed_forward->dropout->is_training());
}

TEST(EvalGuard, AcceptsAModuleWithoutHolder) {
  TransformerBlockImpl block(8, 2);
  {
    const EvalGuard eval(block);
    EXPECT_FALSE(block.attention->is_training());
  }
  EXPECT_TRUE(block.is_training());
}

}  // namespace
}  // namespace attend
