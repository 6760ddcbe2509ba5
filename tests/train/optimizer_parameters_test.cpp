// Checks which parameters of each model AdamW updates and which parameters Muon updates.
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "attend/nn/freezing.h"
#include "attend/train/optimizer.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::Not;

std::unique_ptr<Optimizer> make(OptimizerKind kind, const torch::nn::Module& module) {
  TrainingConfig config;
  config.optimizer = kind;
  return make_optimizer(module, config);
}

/// Names of the parameters whose optimizer state contains `key`. Muon's state contains
/// "momentum_buffer", and AdamW's state contains "exp_avg".
std::vector<std::string> with_state(const std::string& key, Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const auto& item : optimizer.named_state()) {
    const auto slash = item.first.find('/');
    if (item.first.substr(slash + 1) == key) names.push_back(item.first.substr(0, slash));
  }
  return names;
}

StackConfig one_layer() {
  return {.num_layers = 1, .num_heads = 2, .embed_dim = 8};
}

/// Returns the names of a block's matrices, sorted like the keys of Optimizer::named_state().
std::vector<std::string> matrices_of_block(const std::string& block) {
  return {block + ".attention.out.weight", block + ".attention.qkv.weight",
          block + ".feed_forward.down.weight", block + ".feed_forward.up.weight"};
}

class EachTying : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, EachTying, testing::Bool());

TEST_P(EachTying, MuonGetsTheHiddenMatricesOfALanguageModelAndAdamWTheRest) {
  const LanguageModel model(LanguageModelConfig{
      .vocab_size = 5, .max_seq_len = 4, .tie_embeddings = GetParam(), .stack = one_layer()});
  const auto optimizer = make(OptimizerKind::muon, *model);
  const auto muons = with_state("momentum_buffer", *optimizer);
  EXPECT_THAT(muons, ElementsAreArray(matrices_of_block("decoder.blocks.0")));
  const auto adamws = with_state("exp_avg", *optimizer);
  EXPECT_THAT(adamws, AllOf(Contains("embedding.token.weight"), Contains("decoder.norm.weight"),
                            Contains("embedding.position.weight"),
                            Contains("decoder.blocks.0.attention.qkv.bias")));
  EXPECT_EQ(std::count(adamws.begin(), adamws.end(), "head.weight"), GetParam() ? 0 : 1);
  EXPECT_EQ(muons.size() + adamws.size(), model->parameters().size());
}

TEST_P(EachTying, MuonGetsTheHiddenMatricesOfASeq2Seq) {
  const Seq2Seq model(Seq2SeqConfig{.source_vocab_size = 5,
                                    .target_vocab_size = 6,
                                    .max_seq_len = 4,
                                    .tie_embeddings = GetParam(),
                                    .stack = one_layer()});
  EXPECT_THAT(with_state("momentum_buffer", *make(OptimizerKind::muon, *model)),
              ElementsAre("transformer.decoder.blocks.0.attention.out.weight",
                          "transformer.decoder.blocks.0.attention.qkv.weight",
                          "transformer.decoder.blocks.0.cross_attention.out.weight",
                          "transformer.decoder.blocks.0.cross_attention.qkv.weight",
                          "transformer.decoder.blocks.0.feed_forward.down.weight",
                          "transformer.decoder.blocks.0.feed_forward.up.weight",
                          "transformer.encoder.blocks.0.attention.out.weight",
                          "transformer.encoder.blocks.0.attention.qkv.weight",
                          "transformer.encoder.blocks.0.feed_forward.down.weight",
                          "transformer.encoder.blocks.0.feed_forward.up.weight"));
}

TEST(Optimizer, MuonGetsTheHiddenMatricesOfASequenceClassifier) {
  const SequenceClassifier model(SequenceClassifierConfig{
      .vocab_size = 5, .num_classes = 3, .max_seq_len = 4, .stack = one_layer()});
  const auto optimizer = make(OptimizerKind::muon, *model);
  EXPECT_THAT(with_state("momentum_buffer", *optimizer),
              ElementsAreArray(matrices_of_block("encoder.blocks.0")));
  EXPECT_THAT(with_state("exp_avg", *optimizer), Contains("head.weight"));
}

TEST(Optimizer, MuonGetsExpertsAndRouterButNotRelativeBiases) {
  auto stack = one_layer();
  stack.num_experts = 2;
  stack.positions = PositionScheme::relative;
  const LanguageModel model(LanguageModelConfig{.vocab_size = 5, .max_seq_len = 4, .stack = stack});
  EXPECT_THAT(
      with_state("momentum_buffer", *make(OptimizerKind::muon, *model)),
      ElementsAre("decoder.blocks.0.attention.out.weight", "decoder.blocks.0.attention.qkv.weight",
                  "decoder.blocks.0.feed_forward.experts.0.down.weight",
                  "decoder.blocks.0.feed_forward.experts.0.up.weight",
                  "decoder.blocks.0.feed_forward.experts.1.down.weight",
                  "decoder.blocks.0.feed_forward.experts.1.up.weight",
                  "decoder.blocks.0.feed_forward.router.weight"));
}

TEST(Optimizer, AdamWGetsAllParameters) {
  const LanguageModel model(
      LanguageModelConfig{.vocab_size = 5, .max_seq_len = 4, .stack = one_layer()});
  const auto optimizer = make(OptimizerKind::adamw, *model);
  EXPECT_THAT(with_state("momentum_buffer", *optimizer), IsEmpty());
  EXPECT_EQ(with_state("exp_avg", *optimizer).size(), model->parameters().size());
  EXPECT_EQ(optimizer->named_state().size(), 3 * model->parameters().size());
}

class EachOptimizer : public testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, EachOptimizer,
                         testing::Values(OptimizerKind::adamw, OptimizerKind::muon));

TEST_P(EachOptimizer, DoesNotChangeFrozenParameters) {
  LanguageModel model(LanguageModelConfig{.vocab_size = 5, .max_seq_len = 4, .stack = one_layer()});
  freeze(*model->decoder);
  const auto frozen = model->decoder->parameters();
  std::vector<torch::Tensor> before;
  for (const auto& parameter : frozen) before.push_back(parameter.clone());
  const auto optimizer = make(GetParam(), *model);
  for (const auto& item : optimizer->named_state()) {
    EXPECT_THAT(item.first, Not(testing::StartsWith("decoder.")));
  }
  for (auto& parameter : model->parameters()) {
    parameter.mutable_grad() = torch::ones_like(parameter);
  }
  const auto embedding = model->embedding->token->weight.detach().clone();
  set_lr(*optimizer, 0.1);
  optimizer->step();
  for (std::size_t i = 0; i < frozen.size(); ++i) EXPECT_TRUE(frozen[i].equal(before[i]));
  EXPECT_FALSE(model->embedding->token->weight.equal(embedding));
}

TEST_P(EachOptimizer, UpdatesASharedParameterOnce) {
  const auto start = torch::randn({3, 3});
  const auto after_a_step = [&](int holders) {
    const auto parameter = start.clone();
    torch::nn::Module module;
    for (int i = 0; i < holders; ++i) {
      auto part = std::make_shared<torch::nn::Module>();
      part->register_parameter("weight", parameter);
      module.register_module(std::to_string(i), part);
    }
    parameter.mutable_grad() = torch::ones({3, 3});
    const auto optimizer = make(GetParam(), module);
    set_lr(*optimizer, 0.1);
    optimizer->step();
    return parameter.detach();
  };
  EXPECT_TRUE(after_a_step(2).equal(after_a_step(1)));
  EXPECT_FALSE(after_a_step(1).equal(start));
}

}  // namespace
}  // namespace attend::train
