#include "attend/nn/cloneable.h"

#include "attend/models/generation.h"
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "attend/nn/transformer_block.h"
#include "support/modules.h"
#include "support/stack_configs.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

class ClonedStack : public testing::TestWithParam<NamedStack> {};

TEST_P(ClonedStack, KeepsTrainingModeAndRequiresGrad) {
  const auto& stack = GetParam().config;
  LanguageModelConfig language_model{.vocab_size = 11, .stack = stack};
  SequenceClassifierConfig classifier{.vocab_size = 11, .num_classes = 3, .stack = stack};
  Seq2SeqConfig seq2seq{.source_vocab_size = 11, .target_vocab_size = 11, .stack = stack};
  for (const bool tied : {false, true}) {
    language_model.tie_embeddings = tied;
    expect_clones_keep_training_flags(*LanguageModel(language_model));
  }
  expect_clones_keep_training_flags(*SequenceClassifier(classifier));
  expect_clones_keep_training_flags(*Seq2Seq(seq2seq));
}

INSTANTIATE_TEST_SUITE_P(All, ClonedStack, testing::ValuesIn(each_stack()),
                         [](const auto& info) { return info.param.name; });

TEST(Cloneable, GenerateAcceptsACloneOfAnEvalModel) {
  LanguageModel model(LanguageModelConfig{.vocab_size = 5});
  model->eval();
  const LanguageModel copy(std::dynamic_pointer_cast<LanguageModelImpl>(model->clone()));
  const GenerationOptions greedy{.sampling = {.temperature = 0}};
  EXPECT_EQ(generate(copy, {1, 2}, greedy).tokens, generate(model, {1, 2}, greedy).tokens);
}

/// A module of a user, which derives from LibTorch's class.
struct UserModuleImpl : torch::nn::Cloneable<UserModuleImpl> {
  UserModuleImpl() { reset(); }
  void reset() override { linear = register_module("linear", torch::nn::Linear(2, 2)); }
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(UserModule);

TEST(Cloneable, SubmodulesOfUsersKeepTrainingFlags) {
  TransformerBlockOptions options(8, 2);
  options.residual().norm([](int64_t) { return torch::nn::AnyModule(UserModule()); });
  expect_clones_keep_training_flags(*TransformerBlock(options));
}

}  // namespace
}  // namespace attend
