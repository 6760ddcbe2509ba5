#include "attend/models/sequence_classifier.h"

#include "attend/io/safetensors.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

namespace attend {
namespace {

SequenceClassifierConfig tiny_classifier(Pooling pooling = Pooling::mean) {
  return {.vocab_size = 11,
          .num_classes = 3,
          .max_seq_len = 8,
          .pooling = pooling,
          .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}};
}

struct SequenceClassifierTest : FixedSeed, testing::TestWithParam<Pooling> {
  static torch::Tensor draw_tokens(at::IntArrayRef sizes) {
    return torch::randint(0, 11, sizes, torch::kLong);
  }
  static SequenceClassifier randomized_model() {
    SequenceClassifier model(tiny_classifier(GetParam()));
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.add_(0.3 * torch::randn_like(parameter));
    return model;
  }

  SequenceClassifier model = randomized_model();
  torch::Tensor tokens = draw_tokens({2, 5});
};

INSTANTIATE_TEST_SUITE_P(, SequenceClassifierTest,
                         testing::Values(Pooling::mean, Pooling::max, Pooling::first),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(SequenceClassifierTest, AppliesTheHeadToThePooledEncoderOutput) {
  const auto x = model->encoder->forward(model->embedding(tokens));  // (B, T, E)
  torch::Tensor pooled;
  if (GetParam() == Pooling::mean) pooled = x.mean(1);
  if (GetParam() == Pooling::max) pooled = std::get<0>(x.max(1));
  if (GetParam() == Pooling::first) pooled = x.select(1, 0);
  EXPECT_TRUE(close(model(tokens), model->head(pooled), 1e-5));
}

TEST_P(SequenceClassifierTest, EncodesWithoutClasses) {
  auto config = model->config;
  config.num_classes = 0;
  config.normalize = true;
  SequenceClassifier encoder(config);
  load_state_dict(*encoder, state_dict(*model), {.strict = false});
  const auto pooled = model->encode(tokens);
  EXPECT_TRUE(close(model(tokens), model->head(pooled), 1e-5));
  const auto length = pooled.square().sum(-1, /*keepdim=*/true).sqrt();
  EXPECT_TRUE(close(encoder(tokens), pooled / length, 1e-5));
}

TEST_P(SequenceClassifierTest, PaddingHasNoEffect) {
  const auto padded = torch::cat({tokens, draw_tokens({2, 3})}, 1);
  auto key_mask = torch::ones({2, 8}, torch::kBool);
  key_mask.slice(1, 5).fill_(false);
  EXPECT_TRUE(close(model->forward(padded, key_mask), model(tokens), 1e-5));
}

TEST_P(SequenceClassifierTest, EmptySequencesArePooledToZeros) {
  const auto head_of_zeros = model->head(torch::zeros({2, 8}));
  EXPECT_TRUE(close(model(draw_tokens({2, 0})), head_of_zeros, 1e-6));
  const auto none = torch::zeros({2, 5}, torch::kBool);
  EXPECT_TRUE(close(model->forward(tokens, none), head_of_zeros, 1e-6));
}

TEST_P(SequenceClassifierTest, UnbatchedEqualsBatched) {
  EXPECT_TRUE(close(model(tokens[1]), model(tokens)[1], 1e-5));
  EXPECT_EQ(model(draw_tokens({0, 5})).sizes(), at::IntArrayRef({0, 3}));
}

TEST_P(SequenceClassifierTest, GradientsEqualFiniteDifferences) {
  model->to(torch::kDouble);
  const auto key_mask =
      torch::tensor({{true, true, true, false, false}, {true, true, true, true, true}});
  EXPECT_TRUE(
      gradients_match([&] { return model->forward(tokens, key_mask); }, model->parameters()));
}

TEST_P(SequenceClassifierTest, TraceGeneralizesToOtherSizes) {
  freeze(*model);
  const auto run = [&](const Tensors& in) { return model->forward(in[0], in[1]); };
  const auto inputs = [](int64_t b, int64_t t) -> Tensors {
    return {draw_tokens({b, t}), torch::rand({b, t}) > 0.4};
  };
  const auto traced = trace(run, inputs(2, 3));
  for (const auto& other : {inputs(1, 8), inputs(4, 1)}) {
    EXPECT_TRUE(close(traced(other), run(other), 1e-5)) << other[0].sizes();
  }
}

TEST_P(SequenceClassifierTest, CloneAndSaveLoadRoundTrip) {
  expect_clone_and_save_load_work(model, SequenceClassifier(tiny_classifier(GetParam())),
                                  [&](SequenceClassifier module) { return module(tokens); });
}

TEST_P(SequenceClassifierTest, SupportsAllFloatDtypes) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    model->to(dtype);
    EXPECT_EQ(model(tokens).scalar_type(), dtype);
  }
}

TEST(SequenceClassifier, StateDictHasDocumentedKeys) {
  auto config = tiny_classifier();
  config.stack.num_layers = 0;
  EXPECT_THAT(
      state_names(*SequenceClassifier(config)),
      testing::ElementsAre("embedding.token.weight", "embedding.position.weight",
                           "encoder.norm.weight", "encoder.norm.bias", "head.weight", "head.bias"));
}

TEST(SequenceClassifier, PrettyPrintShowsConfig) {
  EXPECT_THAT(printed(*SequenceClassifier(tiny_classifier())),
              testing::StartsWith("attend::SequenceClassifier(vocab_size=11, num_classes=3, "
                                  "max_seq_len=8, type_vocab_size=0, pooling=mean, pooler=false, "
                                  "normalize=false, masked_lm=false)"));
}

TEST(SequenceClassifier, ErrorMessagesNameTheValues) {
  auto config = tiny_classifier();
  config.num_classes = -1;
  EXPECT_THAT([&] { SequenceClassifier{config}; },
              throws<c10::ValueError>("num_classes (-1) must not be negative"));
  SequenceClassifier model(tiny_classifier());
  const auto tokens = torch::zeros({2, 5}, torch::kLong);
  EXPECT_THAT(
      [&] {
        model->forward(tokens, torch::ones({2, 5}, torch::kLong));
      },
      throws<c10::TypeError>("key_mask must be bool (true = token, false = padding), found Long"));
  EXPECT_THAT(
      [&] {
        model->forward(tokens, torch::ones({2, 4}, torch::kBool));
      },
      throws<c10::ValueError>("key_mask must have the shape of the tokens [2, 5], found [2, 4]"));
  EXPECT_THAT(
      [&] {
        model(torch::zeros({2, 9}, torch::kLong));
      },
      throws<c10::ValueError>("max_seq_len (8), found [2, 9]"));
}

TEST(SequenceClassifierPooler, AppliesALinearLayerAndTanh) {
  const FixedSeed seed;
  auto config = tiny_classifier(Pooling::first);
  config.pooler = true;
  SequenceClassifier model(config);
  const auto tokens = torch::randint(0, 11, {2, 5}, torch::kLong);
  const auto first = model->encoder->forward(model->embedding(tokens)).select(1, 0);
  EXPECT_TRUE(close(model(tokens), model->head(torch::tanh(model->pooler(first))), 1e-6));
  expect_clone_and_save_load_work(model, SequenceClassifier(config),
                                  [&](SequenceClassifier module) { return module(tokens); });
}

TEST(SequenceClassifierOfTokens, AppliesTheHeadToEachToken) {
  const FixedSeed seed;
  SequenceClassifier model(tiny_classifier(Pooling::none));
  const auto tokens = torch::randint(0, 11, {2, 5}, torch::kLong);
  const auto x = model->encoder->forward(model->embedding(tokens));
  EXPECT_TRUE(model->config.predicts_tokens());
  EXPECT_TRUE(close(model(tokens), model->head(x), 1e-6));  // (B, T, C)
  EXPECT_TRUE(close(model(tokens[1]), model->head(x)[1], 1e-6));
  const auto key_mask = torch::arange(8).lt(5).expand({2, 8});
  const auto padded = torch::cat({tokens, torch::zeros({2, 3}, torch::kLong)}, 1);
  EXPECT_TRUE(close(model->forward(padded, key_mask).narrow(1, 0, 5), model(tokens), 1e-5));
  expect_clone_and_save_load_work(model, SequenceClassifier(model->config),
                                  [&](SequenceClassifier module) { return module(tokens); });
}

TEST(SequenceClassifierMaskedLm, ProjectsEachTokenToTheVocabulary) {
  const FixedSeed seed;
  auto config = tiny_classifier();
  config.num_classes = 0;
  config.masked_lm = true;
  for (const auto activation : {Activation::relu, Activation::gelu, Activation::swiglu}) {
    config.stack.activation = activation;
    SequenceClassifier model(config);
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : model->parameters()) parameter.add_(torch::randn_like(parameter));
    }
    const auto tokens = torch::randint(0, 11, {2, 5}, torch::kLong);
    auto x = model->lm_dense(model->encoder->forward(model->embedding(tokens)));
    x = activation == Activation::relu ? torch::relu(x) : torch::gelu(x);
    const auto logits = torch::linear(model->lm_norm(x), model->embedding->token->weight,
                                      model->lm_bias);  // (B, T, V)
    EXPECT_TRUE(close(model(tokens), logits, 1e-4));
    EXPECT_TRUE(model->config.predicts_tokens());
    expect_clone_and_save_load_work(model, SequenceClassifier(config),
                                    [&](SequenceClassifier module) { return module(tokens); });
  }
  config.stack.num_layers = 0;
  EXPECT_THAT(state_names(*SequenceClassifier(config)),
              testing::IsSupersetOf({"lm_dense.weight", "lm_dense.bias", "lm_norm.weight",
                                     "lm_norm.bias", "lm_bias"}));
}

TEST(SequenceClassifierTokenTypes, AreEmbeddedAndZeroByDefault) {
  const FixedSeed seed;
  auto config = tiny_classifier();
  config.type_vocab_size = 2;
  SequenceClassifier model(config);
  const auto tokens = torch::randint(0, 11, {2, 5}, torch::kLong);
  const auto types = torch::tensor({{0, 0, 1, 1, 1}, {0, 1, 1, 1, 1}});
  const auto x = model->encoder->forward(model->embedding->forward(tokens, {}, types));
  EXPECT_TRUE(close(model->forward(tokens, {}, types), model->head(x.mean(1)), 1e-6));
  EXPECT_TRUE(close(model(tokens), model->forward(tokens, {}, torch::zeros_like(types)), 1e-6));
}

}  // namespace
}  // namespace attend
