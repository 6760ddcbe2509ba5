#include "attend/nn/cast_copy.h"

#include "attend/models/language_model.h"
#include "support/throws.h"

#include <torch/nn/modules/batchnorm.h>

namespace attend {
namespace {

TEST(CastCopy, CastsFloatingPointTensorsOfTheCopyOnly) {
  const torch::nn::BatchNorm1d norm(3);
  const auto copy = cast_copy(norm, torch::kHalf);
  EXPECT_EQ(copy->weight.scalar_type(), torch::kHalf);
  EXPECT_TRUE(copy->weight.requires_grad());
  EXPECT_EQ(copy->running_mean.scalar_type(), torch::kHalf);
  EXPECT_EQ(copy->num_batches_tracked.scalar_type(), torch::kLong);
  EXPECT_EQ(norm->weight.scalar_type(), torch::kFloat);
  EXPECT_THAT([&] { cast_copy(norm, torch::kLong); }, throws_naming<c10::ValueError>("Long"));
}

TEST(CastCopy, CastsModelsAndDrawsNoRandomNumbers) {
  const LanguageModel model(
      LanguageModelConfig{.vocab_size = 11, .stack = {.num_layers = 1, .embed_dim = 8}});
  torch::manual_seed(1);
  const auto expected = torch::rand({4});
  torch::manual_seed(1);
  auto copy = cast_copy(model, torch::kBFloat16);
  EXPECT_TRUE(torch::rand({4}).equal(expected));
  const auto tokens = torch::arange(6).view({1, 6});
  EXPECT_EQ(copy(tokens).scalar_type(), torch::kBFloat16);
  for (const auto& item : model->named_parameters()) {
    EXPECT_TRUE(copy->named_parameters()[item.key()].equal(item->to(torch::kBFloat16)));
  }
}

}  // namespace
}  // namespace attend
