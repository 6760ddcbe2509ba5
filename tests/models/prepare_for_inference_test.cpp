#include "attend/models/prepare_for_inference.h"

#include "attend/models/generation.h"
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "support/close.h"
#include "support/seed.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

bool has_copy(const torch::Tensor& weight) {
  return weight.unsafeGetTensorImpl()->get_backend_meta() != nullptr;
}

LanguageModelConfig small_config(bool tie_embeddings) {
  LanguageModelConfig config;
  config.vocab_size = 400;
  config.max_seq_len = 32;
  config.tie_embeddings = tie_embeddings;
  config.stack.embed_dim = 384;
  config.stack.num_heads = 4;
  config.stack.num_layers = 2;
  return config;
}

struct PrepareForInference : FixedSeed, testing::TestWithParam<WeightFormat> {
  const torch::NoGradGuard no_grad;
};

TEST_P(PrepareForInference, PreparesAllWeightsOfALanguageModelExceptEmbeddingsThatAreNotTied) {
  for (const bool tied : {false, true}) {
    LanguageModel model(small_config(tied));
    const auto copies = prepare_for_inference(model, GetParam());
    if (copies == 0) {
      GTEST_SKIP() << "this processor or this LibTorch does not support the format";
    }
    for (const auto& parameter : model->named_parameters()) {
      const auto& name = parameter.key();
      const bool is_matrix = parameter.value().dim() == 2;
      const bool is_embedding = name.find("embedding") != std::string::npos;
      const bool is_tied = tied && name == "embedding.token.weight";
      EXPECT_EQ(has_copy(parameter.value()), is_matrix && (!is_embedding || is_tied)) << name;
    }
    EXPECT_EQ(copies, 2 * 4 + 1);  // qkv, out, up and down of 2 layers; tied weight or head
  }
}

/// A step of the model with a cache must give nearly the logits of a forward pass with the original
/// weights.
TEST_P(PrepareForInference, HardlyChangesTheLogits) {
  const auto tokens = torch::randint(0, 400, {2, 12});
  LanguageModel model(small_config(true));
  model->eval();
  const auto expected = model->forward(tokens);
  prepare_for_inference(model, GetParam());
  auto cache = model->make_cache(2);
  std::vector<torch::Tensor> logits;
  for (const auto& token : tokens.split(1, 1)) logits.push_back(model->step(token, cache));
  const auto found = torch::cat(logits, 1);
  const double allowed = GetParam() == WeightFormat::packed ? 1e-5
                         : GetParam() == WeightFormat::int4 ? 0.2
                                                            : 0.03;
  EXPECT_LE(((found - expected).norm() / expected.norm()).item<double>(), allowed);
}

TEST_P(PrepareForInference, LeavesParametersAsTheyAre) {
  LanguageModel model(small_config(false));
  const auto before = model->named_parameters();
  std::vector<torch::Tensor> values;
  for (const auto& parameter : before) values.push_back(parameter.value().clone());
  prepare_for_inference(model, GetParam());
  const auto after = model->named_parameters();
  ASSERT_EQ(before.keys(), after.keys());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(torch::equal(after[i].value(), values[i])) << after[i].key();
  }
}

TEST_P(PrepareForInference, IsUndoneByTraining) {
  LanguageModel model(small_config(true));
  prepare_for_inference(model, GetParam());
  const auto tokens = torch::randint(0, 400, {1, 4});
  {
    const torch::AutoGradMode with_grad(true);
    model->forward(tokens).square().sum().backward();
    for (auto& parameter : model->parameters()) parameter.data().sub_(parameter.grad() * 1e-3);
  }
  const auto found = model->forward(tokens);
  LanguageModel fresh(small_config(true));
  for (auto& parameter : fresh->named_parameters()) {
    parameter.value().copy_(model->named_parameters()[parameter.key()]);
  }
  EXPECT_TRUE(close(found, fresh->forward(tokens), 1e-5));
}

/// Prompts and single tokens must use the same weights.
TEST_P(PrepareForInference, IsUndoneByScaledWeights) {
  LanguageModel model(small_config(true));
  model->eval();
  prepare_for_inference(model, GetParam());
  for (auto& parameter : model->parameters()) parameter.data().mul_(1.5);
  LanguageModel fresh(small_config(true));
  fresh->eval();
  for (auto& parameter : fresh->named_parameters()) {
    parameter.value().copy_(model->named_parameters()[parameter.key()]);
  }
  for (const int64_t prompt : {1, 4, 20}) {
    auto cache = model->make_cache(1);
    auto fresh_cache = fresh->make_cache(1);
    for (const auto length : {prompt, int64_t{1}, int64_t{1}}) {
      const auto tokens = torch::randint(0, 400, {1, length});
      EXPECT_TRUE(close(model->step(tokens, cache), fresh->step(tokens, fresh_cache), 1e-4))
          << prompt << " " << length;
    }
  }
}

TEST_P(PrepareForInference, PreparesTheTiedWeightsOfSeq2Seq) {
  Seq2SeqConfig config;
  config.source_vocab_size = 400;
  config.target_vocab_size = 400;
  config.max_seq_len = 16;
  config.tie_embeddings = true;
  config.stack.embed_dim = 384;
  config.stack.num_heads = 4;
  Seq2Seq model(config);
  prepare_for_inference(model, GetParam());
  if (!has_copy(
          model->transformer->named_parameters()["decoder.blocks.0.feed_forward.up.weight"])) {
    GTEST_SKIP() << "this processor or this LibTorch does not support the format";
  }
  EXPECT_TRUE(has_copy(model->target_embedding->token->weight));
  EXPECT_FALSE(has_copy(model->source_embedding->token->weight));
}

INSTANTIATE_TEST_SUITE_P(Formats, PrepareForInference,
                         testing::Values(WeightFormat::packed, WeightFormat::bf16,
                                         WeightFormat::int8, WeightFormat::int4),
                         [](const auto& each) { return std::string(to_string(each.param)); });

}  // namespace
}  // namespace attend
