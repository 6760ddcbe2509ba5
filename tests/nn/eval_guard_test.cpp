#include "attend/nn/eval_guard.h"

#include "attend/nn/transformer_block.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <stdexcept>

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

struct CannotTrain : torch::nn::Module {
  void train(bool on) override {
    if (on) throw std::runtime_error("cannot be trained");
    torch::nn::Module::train(on);
  }
};

TEST(EvalGuard, DestructorDoesNotThrow) {
  torch::nn::ModuleList list(std::make_shared<CannotTrain>(), torch::nn::Linear(1, 1));
  list[1]->train();
  { const EvalGuard eval(*list); }
  EXPECT_TRUE(list[1]->is_training()) << "the mode of the other modules must be restored";
}

struct CountsCalls : torch::nn::Module {
  void train(bool on) override {
    ++calls;
    torch::nn::Module::train(on);
  }
  int calls = 0;
};

TEST(EvalGuard, WritesNothingToAModuleInEvalMode) {
  CountsCalls module;
  module.eval();
  ASSERT_EQ(module.calls, 1);
  { const EvalGuard eval(module); }
  EXPECT_EQ(module.calls, 1);
  module.train(true);
  { const EvalGuard eval(module); }
  EXPECT_EQ(module.calls, 4);
  EXPECT_TRUE(module.is_training());
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
