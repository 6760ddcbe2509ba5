#include "attend/nn/initialization.h"

#include "attend/nn/token_embedding.h"
#include "attend/nn/transformer_block.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"

#include <torch/nn/modules/container/modulelist.h>

#include <cmath>

namespace attend {
namespace {

/// Contains a block and an embedding, which have enough weights for statistics. All parameters are
/// set to 7 before the initialization.
struct InitializationTest : FixedSeed, testing::Test {
  InitializationTest() {
    module->push_back(TransformerBlock(64, 4));
    module->push_back(TokenEmbedding(TokenEmbeddingOptions(100, 64, 50)));
    const torch::NoGradGuard no_grad;
    for (auto& parameter : module->parameters()) parameter.fill_(7.0);
  }

  torch::Tensor operator[](const std::string& name) const {
    return module->named_parameters()[name].detach();
  }

  /// Checks that the values of a parameter are normal with mean 0 and standard deviation `std`. The
  /// parameter has thousands of values, so the tolerance of 5 % is well above the sampling error.
  void expect_normal(const std::string& name, double std) const {
    const auto values = (*this)[name];
    EXPECT_NEAR(values.std().item<double>(), std, 0.05 * std) << name;
    EXPECT_NEAR(values.mean().item<double>(), 0.0, 0.05 * std) << name;
    EXPECT_GT(values.abs().max().item<double>(), 2.5 * std) << name << " is not normal";
  }

  void expect_uniform(const std::string& name, double bound) const {
    const auto values = (*this)[name];
    EXPECT_LE(values.abs().max().item<double>(), bound) << name;
    EXPECT_GT(values.max().item<double>(), 0.9 * bound) << name;
    EXPECT_LT(values.min().item<double>(), -0.9 * bound) << name;
  }

  void expect_all(const std::string& name, double value) const {
    const auto values = (*this)[name];
    EXPECT_TRUE(close(values, torch::full_like(values, value), 0.0)) << name;
  }

  torch::nn::ModuleList module;
};

TEST_F(InitializationTest, Gpt2ScalesBranchOutputsAndZeroesBiases) {
  initialize_gpt2(*module, 8);
  for (const char* name : {"0.attention.qkv.weight", "0.feed_forward.up.weight", "1.token.weight",
                           "1.position.weight"}) {
    expect_normal(name, 0.02);
  }
  for (const char* name : {"0.attention.out.weight", "0.feed_forward.down.weight"}) {
    expect_normal(name, 0.02 / 4.0);  // 4 = sqrt(2 * 8)
  }
  for (const char* name : {"0.attention.qkv.bias", "0.attention.out.bias", "0.feed_forward.up.bias",
                           "0.feed_forward.down.bias"}) {
    expect_all(name, 0.0);
  }
}

TEST_F(InitializationTest, XavierMatchesPyTorchTransformer) {
  initialize_xavier(*module);
  const auto bound = [](double rows, double columns) { return std::sqrt(6.0 / (rows + columns)); };
  expect_uniform("0.attention.qkv.weight", bound(192, 64));  // one matrix, as in PyTorch
  expect_uniform("0.attention.out.weight", bound(64, 64));
  expect_uniform("0.feed_forward.up.weight", bound(256, 64));
  expect_uniform("0.feed_forward.down.weight", bound(64, 256));
  expect_uniform("1.token.weight", bound(100, 64));
  expect_all("0.attention.qkv.bias", 0.0);
  expect_all("0.attention.out.bias", 0.0);
  expect_all("0.feed_forward.up.bias", 7.0);
  expect_all("0.feed_forward.down.bias", 7.0);
}

TEST_F(InitializationTest, XavierHandlesSeparateProjections) {
  MultiheadAttention attention(MultiheadAttentionOptions(64, 4).kdim(32));
  initialize_xavier(*attention);
  const auto bound = std::sqrt(6.0 / (64 + 32));
  EXPECT_LE(attention->key->weight.abs().max().item<double>(), bound);
  EXPECT_GT(attention->key->weight.abs().max().item<double>(), 0.9 * bound);
  for (const auto& linear : {attention->query, attention->key, attention->value}) {
    EXPECT_TRUE(close(linear->bias, torch::zeros({64}), 0.0));
  }
  initialize_xavier(*MultiheadAttention(MultiheadAttentionOptions(64, 4).bias(false)));
}

TEST_F(InitializationTest, BloemMatchesLayerDefaults) {
  initialize_bloem(*module);
  for (const char* name : {"0.attention.qkv", "0.attention.out", "0.feed_forward.up"}) {
    expect_uniform(name + std::string(".weight"), 1.0 / 8.0);  // 8 = sqrt(64)
    expect_uniform(name + std::string(".bias"), 1.0 / 8.0);
  }
  expect_uniform("0.feed_forward.down.weight", 1.0 / 16.0);  // 16 = sqrt(256)
  expect_uniform("0.feed_forward.down.bias", 1.0 / 16.0);
  expect_normal("1.token.weight", 1.0);
  expect_normal("1.position.weight", 1.0);
}

TEST_F(InitializationTest, NormsAreUnchanged) {
  initialize_gpt2(*module, 1);
  initialize_xavier(*module);
  initialize_bloem(*module);
  expect_all("0.norm1.weight", 7.0);
  expect_all("0.norm2.bias", 7.0);
}

TEST_F(InitializationTest, ParametersRemainLeaves) {
  initialize_gpt2(*module, 1);
  initialize_xavier(*module);
  initialize_bloem(*module);
  for (const auto& parameter : module->parameters()) {
    EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad());
  }
}

TEST_F(InitializationTest, PaddingRowIsZero) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 4).padding_idx(3));
  for (const auto& initialize : std::initializer_list<void (*)(ModuleRef)>{
           [](ModuleRef it) { initialize_gpt2(it, 1); }, initialize_bloem}) {
    initialize(*table);
    EXPECT_TRUE(close(table->weight[3], torch::zeros({4}), 0.0));
    EXPECT_FALSE(close(table->weight[2], torch::zeros({4}), 0.0));
  }
}

TEST(InitializationErrors, NegativeNumLayersThrows) {
  EXPECT_THAT([] { initialize_gpt2(*torch::nn::Linear(2, 2), -1); },
              throws<c10::ValueError>("num_layers (-1) must not be negative"));
}

}  // namespace
}  // namespace attend
