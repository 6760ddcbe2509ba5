#include "attend/nn/trainable_parameters.h"

#include "attend/nn/freezing.h"
#include "attend/nn/transformer_block.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr auto kHidden = ParameterRole::hidden_matrix;
constexpr auto kDecay = ParameterRole::decay;
constexpr auto kNoDecay = ParameterRole::no_decay;

std::vector<std::pair<std::string, ParameterRole>> roles_in(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, ParameterRole>> roles;
  for (const auto& [name, tensor, role] : trainable_parameters(module)) {
    EXPECT_TRUE(tensor.is_same(module.named_parameters()[name])) << name;
    roles.emplace_back(name, role);
  }
  return roles;
}

TEST(TrainableParameters, BlockHasHiddenMatricesAndNoDecayVectors) {
  const TransformerBlock block(8, 2);
  EXPECT_THAT(
      roles_in(*block),
      ElementsAre(Pair("attention.qkv.weight", kHidden), Pair("attention.qkv.bias", kNoDecay),
                  Pair("attention.out.weight", kHidden), Pair("attention.out.bias", kNoDecay),
                  Pair("norm1.weight", kNoDecay), Pair("norm1.bias", kNoDecay),
                  Pair("feed_forward.up.weight", kHidden), Pair("feed_forward.up.bias", kNoDecay),
                  Pair("feed_forward.down.weight", kHidden),
                  Pair("feed_forward.down.bias", kNoDecay), Pair("norm2.weight", kNoDecay),
                  Pair("norm2.bias", kNoDecay)));
}

TEST(TrainableParameters, EmbeddingsNormsAndHigherDimensionsAreNotHiddenMatrices) {
  torch::nn::Module module;
  module.register_module("table", torch::nn::Embedding(3, 2));
  module.register_module("bag", torch::nn::EmbeddingBag(3, 2));
  module.register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({3, 4})));
  module.register_parameter("cube", torch::zeros({2, 2, 2}));
  module.register_parameter("matrix", torch::zeros({2, 2}));
  module.register_parameter("scalar", torch::zeros({}));
  EXPECT_THAT(roles_in(module),
              ElementsAre(Pair("cube", kDecay), Pair("matrix", kHidden), Pair("scalar", kNoDecay),
                          Pair("table.weight", kDecay), Pair("bag.weight", kDecay),
                          Pair("norm.weight", kNoDecay), Pair("norm.bias", kNoDecay)));
}

TEST(TrainableParameters, HeadIsNotAHiddenMatrixAtAnyDepth) {
  const auto inner = std::make_shared<torch::nn::Module>();
  inner->register_module("head", torch::nn::Linear(2, 3));
  inner->register_module("overhead", torch::nn::Linear(2, 3));
  torch::nn::Module outer;
  outer.register_module("model", inner);
  EXPECT_EQ(roles_in(*inner).at(0), std::pair(std::string("head.weight"), kDecay));
  EXPECT_THAT(
      roles_in(outer),
      ElementsAre(Pair("model.head.weight", kDecay), Pair("model.head.bias", kNoDecay),
                  Pair("model.overhead.weight", kHidden), Pair("model.overhead.bias", kNoDecay)));
}

TEST(TrainableParameters, SharedParameterOccursOnceAndIsAnEmbeddingIfUsedAsOne) {
  const auto shared = torch::zeros({3, 4});
  torch::nn::Module module;
  for (const auto* name : {"first", "again"}) {
    auto part = std::make_shared<torch::nn::Module>();
    part->register_parameter("weight", shared);
    module.register_module(name, part);
  }
  EXPECT_THAT(roles_in(module), ElementsAre(Pair("first.weight", kHidden)));
  const auto options = torch::nn::EmbeddingOptions(3, 4)._weight(shared);
  module.register_module("table", torch::nn::Embedding(options));
  EXPECT_THAT(roles_in(module), ElementsAre(Pair("first.weight", kDecay)));
}

TEST(TrainableParameters, FrozenParametersAreExcluded) {
  TransformerBlock block(8, 2);
  freeze(*block->attention);
  EXPECT_EQ(roles_in(*block).front().first, "norm1.weight");
}

TEST(TrainableParameters, FrozenParametersAreIncludedOnRequest) {
  torch::nn::Module module;
  const torch::nn::Linear frozen(2, 3);
  const torch::nn::Linear trained(3, 2);
  module.register_module("frozen", frozen);
  module.register_module("trained", trained);
  module.register_module("shared", frozen);
  freeze(*frozen);
  std::vector<std::pair<std::string, bool>> requires_grad;
  for (const auto& [name, tensor, role] : trainable_parameters(module, /*include_frozen=*/true))
    requires_grad.emplace_back(name, tensor.requires_grad());
  EXPECT_THAT(requires_grad, ElementsAre(Pair("frozen.weight", false), Pair("frozen.bias", false),
                                         Pair("trained.weight", true), Pair("trained.bias", true)));
}

}  // namespace
}  // namespace attend
