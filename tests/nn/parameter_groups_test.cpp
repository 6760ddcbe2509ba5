#include "attend/nn/parameter_groups.h"

#include "attend/nn/attention_sinks.h"
#include "attend/nn/freezing.h"
#include "attend/nn/norms.h"
#include "attend/nn/token_embedding.h"
#include "attend/nn/transformer_block.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Returns the names of the parameters of a group.
std::vector<std::string> names_of(const std::vector<torch::Tensor>& group,
                                  const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& parameter : group) {
    for (const auto& item : module.named_parameters()) {
      if (item.value().is_same(parameter)) names.push_back(item.key());
    }
  }
  return names;
}

TEST(ParameterGroups, OnlyMatricesOfABlockDecay) {
  auto options = TransformerBlockOptions(8, 2);
  options.attention().add(attention_sinks());
  options.residual().norm(rms_norm());
  const TransformerBlock block(options);
  const auto groups = parameter_groups(*block);
  EXPECT_THAT(names_of(groups.decay, *block),
              ElementsAre("attention.qkv.weight", "attention.out.weight", "feed_forward.up.weight",
                          "feed_forward.down.weight"));
  EXPECT_THAT(names_of(groups.no_decay, *block),
              ElementsAre("attention.qkv.bias", "attention.out.bias",
                          "attention.attention_sinks.logits", "norm1.weight",
                          "feed_forward.up.bias", "feed_forward.down.bias", "norm2.weight"));
}

TEST(ParameterGroups, EmbeddingsDecayButScalarsDoNot) {
  const TokenEmbedding embedding(TokenEmbeddingOptions(5, 4, 3));
  EXPECT_THAT(names_of(parameter_groups(*embedding).decay, *embedding),
              ElementsAre("token.weight", "position.weight"));
  const L2Norm norm(4);
  EXPECT_THAT(names_of(parameter_groups(*norm).no_decay, *norm), ElementsAre("scale"));
}

TEST(ParameterGroups, NormWeightsWithTwoDimensionsDoNotDecay) {
  const torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({3, 4}));
  const auto groups = parameter_groups(*norm);
  EXPECT_THAT(groups.decay, IsEmpty());
  EXPECT_THAT(names_of(groups.no_decay, *norm), ElementsAre("weight", "bias"));
}

TEST(ParameterGroups, SharedParametersOccurOnce) {
  torch::nn::Linear shared(4, 4);
  torch::nn::Module module;
  module.register_module("first", shared);
  module.register_module("second", shared);
  ASSERT_EQ(module.parameters().size(), 4U);
  const auto groups = parameter_groups(module);
  EXPECT_EQ(groups.decay.size(), 1U);
  EXPECT_EQ(groups.no_decay.size(), 1U);
}

TEST(ParameterGroups, FrozenParametersAreExcluded) {
  TransformerBlock block(8, 2);
  freeze(*block->attention);
  const auto groups = parameter_groups(*block);
  EXPECT_THAT(names_of(groups.decay, *block),
              ElementsAre("feed_forward.up.weight", "feed_forward.down.weight"));
  freeze(*block);
  EXPECT_THAT(parameter_groups(*block).no_decay, IsEmpty());
}

TEST(ParameterGroups, AcceptAModuleWithoutHolder) {
  const torch::nn::LinearImpl linear(4, 3);
  EXPECT_TRUE(parameter_groups(linear).decay.at(0).is_same(linear.weight));
  EXPECT_TRUE(parameter_groups(linear).no_decay.at(0).is_same(linear.bias));
}

}  // namespace
}  // namespace attend
