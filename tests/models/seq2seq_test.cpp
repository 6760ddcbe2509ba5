#include "attend/models/seq2seq.h"

#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>

namespace attend {
namespace {

Seq2SeqConfig tiny_seq2seq(bool tie_embeddings = true) {
  return {.source_vocab_size = 11,
          .target_vocab_size = 7,
          .max_seq_len = 8,
          .tie_embeddings = tie_embeddings,
          .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}};
}

struct Seq2SeqTest : FixedSeed, testing::Test {
  static torch::Tensor draw_source(int64_t b, int64_t s) {
    return torch::randint(0, 11, {b, s}, torch::kLong);
  }
  static torch::Tensor draw_target(int64_t b, int64_t t) {
    return torch::randint(0, 7, {b, t}, torch::kLong);
  }
  static Seq2Seq randomized_model(const Seq2SeqConfig& config = tiny_seq2seq()) {
    Seq2Seq model(config);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.add_(0.3 * torch::randn_like(parameter));
    return model;
  }

  torch::Tensor source = draw_source(2, 5);
  torch::Tensor target = draw_target(2, 4);
};

TEST_F(Seq2SeqTest, EqualsEmbeddingsTransformerHeadInSequence) {
  for (const bool tie_embeddings : {true, false}) {
    auto model = randomized_model(tiny_seq2seq(tie_embeddings));
    const auto x = model->transformer->forward(
        model->source_embedding(source), model->target_embedding(target), {}, {.causal = true});
    const auto& head =
        tie_embeddings ? model->target_embedding->token->weight : model->head->weight;
    EXPECT_TRUE(close(model->forward(source, target), torch::matmul(x, head.t()), 1e-5));
  }
}

TEST_F(Seq2SeqTest, IsCausalInTheTargetAndSeesTheWholeSource) {
  auto model = randomized_model();
  const auto logits = model->forward(source, target);
  auto other_target = target.clone();
  other_target.select(1, 2).add_(1).remainder_(7);
  EXPECT_TRUE(
      close(model->forward(source, other_target).slice(1, 0, 2), logits.slice(1, 0, 2), 1e-6));
  for (int64_t s = 0; s < 5; ++s) {
    auto other_source = source.clone();
    other_source.select(1, s).add_(1).remainder_(11);
    EXPECT_FALSE(
        torch::allclose(model->forward(other_source, target).select(1, 0), logits.select(1, 0)));
  }
}

TEST_F(Seq2SeqTest, SourcePaddingHasNoEffect) {
  auto model = randomized_model();
  const auto padded = torch::cat({source, draw_source(2, 3)}, 1);
  auto key_mask = torch::ones({2, 8}, torch::kBool);
  key_mask.slice(1, 5).fill_(false);
  EXPECT_TRUE(
      close(model->forward(padded, target, key_mask), model->forward(source, target), 1e-5));
}

TEST_F(Seq2SeqTest, TraceGeneralizesToOtherSizesForEachStack) {
  for (const auto& stack : each_stack()) {
    if (stack.config.num_experts > 0 || stack.config.norm_order == NormOrder::parallel) continue;
    SCOPED_TRACE(stack.name);
    auto config = tiny_seq2seq();
    config.stack = stack.config;
    auto model = randomized_model(config);
    freeze(*model);
    const auto run = [&](const Tensors& in) { return model->forward(in[0], in[1], in[2]); };
    const auto inputs = [](int64_t b, int64_t s, int64_t t) -> Tensors {
      return {draw_source(b, s), draw_target(b, t), torch::rand({b, s}) > 0.3};
    };
    const auto traced = trace(run, inputs(2, 3, 4));
    for (const auto& other : {inputs(1, 7, 2), inputs(3, 1, 8)}) {
      EXPECT_TRUE(close(traced(other), run(other), 1e-5)) << other[0].sizes();
    }
  }
}

TEST_F(Seq2SeqTest, UnbatchedEqualsBatched) {
  auto model = randomized_model();
  EXPECT_TRUE(close(model->forward(source[1], target[1]), model->forward(source, target)[1], 1e-5));
  EXPECT_EQ(model->forward(draw_source(0, 5), draw_target(0, 4)).sizes(),
            at::IntArrayRef({0, 4, 7}));
}

TEST_F(Seq2SeqTest, GradientsEqualFiniteDifferences) {
  auto config = tiny_seq2seq(false);
  config.stack.embed_dim = 4;
  config.stack.dim_feedforward = 3;
  auto model = randomized_model(config);
  model->to(torch::kDouble);
  EXPECT_TRUE(gradients_match([&] { return model->forward(source, target); }, model->parameters()));
}

TEST_F(Seq2SeqTest, CloneAndSaveLoadRoundTrip) {
  expect_clone_and_save_load_work(randomized_model(), Seq2Seq(tiny_seq2seq()),
                                  [&](Seq2Seq module) { return module->forward(source, target); });
}

TEST_F(Seq2SeqTest, SupportsAllFloatDtypes) {
  auto model = randomized_model();
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    model->to(dtype);
    EXPECT_EQ(model->forward(source, target).scalar_type(), dtype);
  }
}

TEST_F(Seq2SeqTest, NumDecoderLayersSetsTheDepthOfTheDecoder) {
  auto config = tiny_seq2seq();
  EXPECT_EQ(Seq2Seq(config)->transformer->decoder->blocks->size(), 1U);
  config.num_decoder_layers = 3;
  EXPECT_EQ(Seq2Seq(config)->transformer->decoder->blocks->size(), 3U);
  EXPECT_EQ(Seq2Seq(config)->transformer->encoder->blocks->size(), 1U);
}

TEST_F(Seq2SeqTest, InitializationUsesTheDepthOfEachStack) {
  auto config = tiny_seq2seq();
  config.stack.embed_dim = 64;
  config.num_decoder_layers = 9;
  const Seq2Seq model(config);
  const auto initial_std = [](const torch::nn::ModuleList& blocks) {
    return (*blocks)[0]->named_parameters()["attention.out.weight"].std().item<double>();
  };
  EXPECT_NEAR(initial_std(model->transformer->encoder->blocks), 0.02 / std::sqrt(2.0 * 1), 0.001);
  EXPECT_NEAR(initial_std(model->transformer->decoder->blocks), 0.02 / std::sqrt(2.0 * 9), 0.001);
}

TEST_F(Seq2SeqTest, StateDictHasDocumentedKeys) {
  auto config = tiny_seq2seq(false);
  config.stack.num_layers = 0;
  EXPECT_THAT(
      state_names(*Seq2Seq(config)),
      testing::ElementsAre("source_embedding.token.weight", "source_embedding.position.weight",
                           "target_embedding.token.weight", "target_embedding.position.weight",
                           "transformer.encoder.norm.weight", "transformer.encoder.norm.bias",
                           "transformer.decoder.norm.weight", "transformer.decoder.norm.bias",
                           "head.weight"));
}

TEST_F(Seq2SeqTest, PrettyPrintShowsConfig) {
  EXPECT_THAT(printed(*Seq2Seq(tiny_seq2seq())),
              testing::StartsWith("attend::Seq2Seq(source_vocab_size=11, target_vocab_size=7, "
                                  "max_seq_len=8, tie_embeddings=true, logit_scale=1, "
                                  "final_logit_soft_cap=0)"));
}

TEST_F(Seq2SeqTest, ErrorMessagesNameTheValues) {
  auto config = tiny_seq2seq();
  config.num_decoder_layers = -2;
  EXPECT_THAT([&] { Seq2Seq{config}; }, throws<c10::ValueError>("num_decoder_layers (-2)"));
  auto model = randomized_model();
  EXPECT_THAT(
      [&] {
        model->forward(source, target, torch::ones({2, 4}, torch::kBool));
      },
      throws<c10::ValueError>("key_mask [2, 4]"));
}

TEST_F(Seq2SeqTest, LogitsAreScaledThenSoftCapped) {
  auto model = randomized_model();
  const auto x = torch::randn({2, 4, 8});
  const auto plain = model->logits(x);
  model->config.logit_scale = 0.5;
  model->config.final_logit_soft_cap = 0.7;
  EXPECT_TRUE(close(model->logits(x), torch::tanh(plain / 2 / 0.7) * 0.7, 1e-6));
}

TEST_F(Seq2SeqTest, DecoderMayHaveExpertsAndParallelBranches) {
  for (const auto order : {NormOrder::parallel, NormOrder::parallel_separate_norms}) {
    auto config = tiny_seq2seq();
    config.stack.norm_order = order;
    config.stack.num_experts = 3;
    auto model = randomized_model(config);
    model->forward(source, target).sum().backward();
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(item.value().grad().defined()) << item.key();
    }
  }
}

}  // namespace
}  // namespace attend
