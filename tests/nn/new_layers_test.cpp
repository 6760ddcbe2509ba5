#include "nn/new_layers.h"

#include "attend/models/language_model.h"
#include "support/seed.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

TEST(NewLayers, HaveTheOptionsAndShapesOfLibTorchsLayers) {
  const auto options = torch::nn::LinearOptions(3, 5).bias(false);
  for (const bool skips : {false, true}) {
    std::optional<UninitializedWeights> guard;
    if (skips) guard.emplace(torch::kBFloat16);
    const auto linear = new_linear(options);
    EXPECT_EQ(linear->weight.sizes(), (std::vector<int64_t>{5, 3}));
    EXPECT_FALSE(linear->bias.defined());
    EXPECT_EQ(linear->options.in_features(), 3);
    EXPECT_EQ(linear->options.out_features(), 5);
    EXPECT_EQ(new_linear({3, 5})->bias.sizes(), (std::vector<int64_t>{5}));
    const auto embedding = new_embedding(7, 2);
    EXPECT_EQ(embedding->weight.sizes(), (std::vector<int64_t>{7, 2}));
    EXPECT_EQ(embedding->options.num_embeddings(), 7);
    const auto dtype = skips ? torch::kBFloat16 : torch::kFloat;
    for (const auto& weight : {linear->weight, new_linear({3, 5})->bias, embedding->weight}) {
      EXPECT_EQ(weight.dtype(), dtype);
      EXPECT_TRUE(weight.requires_grad());
    }
    EXPECT_EQ(linear->parameters().front().data_ptr(), linear->weight.data_ptr());
  }
}

TEST(NewLayers, AreInitializedAfterTheGuard) {
  const LanguageModelConfig config{.vocab_size = 10, .stack = {.num_layers = 1, .embed_dim = 8}};
  torch::manual_seed(3);
  const auto expected = LanguageModel(config)->parameters();
  {
    const UninitializedWeights outer(torch::kFloat);
    { const UninitializedWeights inner(torch::kBFloat16); }
    EXPECT_EQ(UninitializedWeights::dtype(), torch::kFloat);
  }
  EXPECT_FALSE(UninitializedWeights::dtype());
  torch::manual_seed(3);
  const auto found = LanguageModel(config)->parameters();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i]));
}

}  // namespace
}  // namespace attend
