#include "attend/nn/freezing.h"

#include "attend/nn/transformer_block.h"
#include "support/throws.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

TEST(Freezing, FreezeDisablesAndUnfreezeEnablesGradients) {
  TransformerBlock block(8, 2);
  freeze(*block);
  EXPECT_FALSE(block(torch::zeros({2, 3, 8})).requires_grad());
  unfreeze(*block);
  block(torch::randn({2, 3, 8})).sum().backward();
  for (const auto& parameter : block->parameters()) EXPECT_TRUE(parameter.grad().defined());
}

TEST(Freezing, FreezingASubmoduleLeavesOthersTrainable) {
  TransformerBlock block(8, 2);
  freeze(*block->attention);
  for (const auto& item : block->named_parameters()) {
    const bool in_attention = item.key().rfind("attention.", 0) == 0;
    EXPECT_EQ(item.value().requires_grad(), !in_attention) << item.key();
  }
}

TEST(Freezing, AcceptsAnyModules) {
  TransformerBlock block(8, 2);
  freeze(block->feed_forward);
  EXPECT_FALSE(block->feed_forward.ptr()->parameters().front().requires_grad());
}

TEST(Freezing, NullPointersThrow) {
  EXPECT_THAT([] { freeze(std::shared_ptr<TransformerBlockImpl>()); },
              throws<c10::ValueError>("found a null pointer"));
}

TEST(Freezing, TrainingModeIsUnchanged) {
  TransformerBlock block(8, 2);
  freeze(*block);
  EXPECT_TRUE(block->attention->is_training());
}

TEST(Freezing, UnfreezeSkipsIntegerParameters) {
  torch::nn::Module module;
  const auto codes =
      module.register_parameter("codes", torch::zeros({2}, torch::kChar), /*requires_grad=*/false);
  unfreeze(module);
  EXPECT_FALSE(codes.requires_grad());
}

}  // namespace
}  // namespace attend
