#include "attend/models/language_model.h"

#include "attend/ops/attention_recorder.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/throws.h"
#include "support/trace.h"

#include <torch/nn/functional/linear.h>

namespace attend {
namespace {

LanguageModelConfig tiny_config() {
  return {.vocab_size = 11,
          .max_seq_len = 6,
          .stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 8}};
}

struct LanguageModelTest : FixedSeed, testing::Test {
  static torch::Tensor draw_tokens(at::IntArrayRef sizes) {
    return torch::randint(0, 11, sizes, torch::kLong);
  }

  LanguageModelConfig config = tiny_config();
  torch::Tensor tokens = draw_tokens({3, 5});
};

/// Runs `check` with the config of each stack, with tied and untied embeddings.
template <typename Check>
void for_each_config(const Check& check) {
  for (const auto& stack : each_stack()) {
    for (const bool tie_embeddings : {true, false}) {
      SCOPED_TRACE(testing::Message() << stack.name << ", tie_embeddings " << tie_embeddings);
      auto config = tiny_config();
      config.stack = stack.config;
      config.tie_embeddings = tie_embeddings;
      check(config);
    }
  }
}

/// Returns a model with noise added to its parameters: the small initial values would hide
/// differences.
LanguageModel randomized_model(const LanguageModelConfig& config) {
  LanguageModel model(config);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(0.3 * torch::randn_like(parameter));
  return model;
}

TEST_F(LanguageModelTest, LogitsHaveOneRowPerToken) {
  for_each_config([&](const LanguageModelConfig& case_config) {
    LanguageModel model(case_config);
    EXPECT_EQ(model(tokens).sizes(), at::IntArrayRef({3, 5, 11}));
    EXPECT_EQ(model(tokens[0]).sizes(), at::IntArrayRef({5, 11}));
  });
}

TEST_F(LanguageModelTest, EqualsEmbeddingDecoderHeadInSequence) {
  for (const bool tie_embeddings : {true, false}) {
    config.tie_embeddings = tie_embeddings;
    auto model = randomized_model(config);
    const auto x = model->decoder->forward(model->embedding(tokens), {.causal = true});
    const auto& head = tie_embeddings ? model->embedding->token->weight : model->head->weight;
    EXPECT_TRUE(close(model(tokens), torch::matmul(x, head.t()), 1e-5));
  }
}

TEST_F(LanguageModelTest, LaterTokensDoNotChangeEarlierLogits) {
  for_each_config([&](const LanguageModelConfig& case_config) {
    auto model = randomized_model(case_config);
    const auto logits = model(tokens);
    for (int64_t changed = 0; changed < 5; ++changed) {
      auto others = tokens.clone();
      others.select(1, changed).add_(1).remainder_(11);
      const auto with_others = model(others);
      EXPECT_TRUE(close(with_others.narrow(1, 0, changed), logits.narrow(1, 0, changed), 1e-6));
      EXPECT_FALSE(torch::allclose(with_others.select(1, changed), logits.select(1, changed)));
      const auto& stack = case_config.stack;
      int64_t reach = 0;
      for (int64_t layer = 0; layer < stack.num_layers; ++layer) {
        const auto& windows = stack.sliding_window_pattern;
        const auto window = windows.empty()
                                ? stack.sliding_window
                                : windows[static_cast<std::size_t>(layer) % windows.size()];
        reach += window == 0 ? 5 : window - 1;
      }
      const bool visible_to_last = stack.num_layers > 0 && 4 - changed <= reach;
      EXPECT_EQ(torch::allclose(with_others.select(1, 4), logits.select(1, 4), 1e-7, 1e-9),
                !visible_to_last && changed < 4);
    }
  });
}

TEST_F(LanguageModelTest, LogitsOfAPrefixEqualTheFirstLogitsOfTheSequence) {
  auto model = randomized_model(config);
  EXPECT_TRUE(close(model(tokens.narrow(1, 0, 2)), model(tokens).narrow(1, 0, 2), 1e-5));
}

TEST_F(LanguageModelTest, UnbatchedEqualsBatched) {
  auto model = randomized_model(config);
  EXPECT_TRUE(close(model(tokens[1]), model(tokens)[1], 1e-5));
}

TEST_F(LanguageModelTest, AcceptsEmptyBatchAndEmptySequence) {
  LanguageModel model(config);
  EXPECT_EQ(model(draw_tokens({0, 5})).sizes(), at::IntArrayRef({0, 5, 11}));
  EXPECT_EQ(model(draw_tokens({3, 0})).sizes(), at::IntArrayRef({3, 0, 11}));
}

TEST_F(LanguageModelTest, ZeroLayersProjectTheNormalizedEmbedding) {
  config.stack.num_layers = 0;
  LanguageModel model(config);
  const auto expected = torch::nn::functional::linear(
      model->decoder->norm.forward(model->embedding(tokens)), model->embedding->token->weight);
  EXPECT_TRUE(close(model(tokens), expected, 1e-6));
  EXPECT_EQ(model->decoder->blocks->size(), 0U);
}

TEST_F(LanguageModelTest, EachLayerComputesCausalAttention) {
  config.stack.num_layers = 3;
  LanguageModel model(config);
  AttentionRecorder recorder;
  model(tokens);
  ASSERT_EQ(recorder.weights().size(), 3U);
  const auto last_query = torch::ones({3, 2, 5});
  for (const auto& weights : recorder.weights()) {
    EXPECT_EQ(weights.sizes(), at::IntArrayRef({3, 2, 5, 5}));
    EXPECT_TRUE(close(weights.triu(1), torch::zeros({3, 2, 5, 5}), 0.0));
    EXPECT_TRUE(close(weights.sum(-1), last_query, 1e-6));
  }
}

TEST_F(LanguageModelTest, DropoutIsActiveInTrainingOnly) {
  config.stack.dropout = 0.5;
  auto model = randomized_model(config);
  EXPECT_FALSE(torch::allclose(model(tokens), model(tokens)));
  model->eval();
  EXPECT_TRUE(close(model(tokens), model(tokens), 0.0));
}

TEST_F(LanguageModelTest, DropoutAppliesToEmbeddingAttentionFeedForwardAndBranches) {
  config.stack.dropout = 0.25;
  LanguageModel model(config);
  EXPECT_EQ(model->embedding->options.dropout(), 0.25);
  for (const auto& child : *model->decoder->blocks) {
    const auto& options = child->as<TransformerBlock>()->options;
    EXPECT_EQ(options.residual().dropout(), 0.25);
    EXPECT_EQ(options.attention().dropout(), 0.25);
    EXPECT_EQ(options.feed_forward().dropout(), 0.25);
  }
}

TEST_F(LanguageModelTest, ConfigIsPassedToTheBlocks) {
  config.stack.dim_feedforward = 7;
  config.stack.bias = false;
  config.stack.activation = Activation::relu;
  config.stack.norm_order = NormOrder::post;
  LanguageModel model(config);
  for (const auto& child : *model->decoder->blocks) {
    const auto& block = *child->as<TransformerBlock>();
    const auto feed_forward = block.feed_forward.get<FeedForward>();
    EXPECT_EQ(feed_forward->up->weight.sizes(), at::IntArrayRef({7, 8}));
    EXPECT_EQ(std::get<Activation>(feed_forward->options.activation()), Activation::relu);
    EXPECT_EQ(block.options.residual().norm_order(), NormOrder::post);
    EXPECT_EQ(block.attention->options.num_heads(), 2);
    EXPECT_FALSE(block.attention->qkv->bias.defined());
    EXPECT_FALSE(feed_forward->down->bias.defined());
  }
}

TEST_F(LanguageModelTest, GradientsEqualFiniteDifferences) {
  config = {.vocab_size = 5,
            .max_seq_len = 3,
            .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 4, .dim_feedforward = 3}};
  for (const bool tie_embeddings : {true, false}) {
    config.tie_embeddings = tie_embeddings;
    auto model = randomized_model(config);
    model->to(torch::kDouble);
    const auto few_tokens = torch::tensor({{1, 4, 1}});
    EXPECT_TRUE(gradients_match([&] { return model(few_tokens); }, model->parameters()));
  }
}

TEST_F(LanguageModelTest, TraceGeneralizesToOtherSizes) {
  for_each_config([&](const LanguageModelConfig& case_config) {
    auto model = randomized_model(case_config);
    freeze(*model);
    const auto run = [&](const Tensors& x) { return model(x[0]); };
    const auto traced = trace(run, {draw_tokens({2, 3})});
    for (const auto& other : {draw_tokens({1, 6}), draw_tokens({3, 1})}) {
      EXPECT_TRUE(close(traced({other}), run({other}), 1e-5)) << other.sizes();
    }
  });
}

TEST_F(LanguageModelTest, LogitsAreScaledThenSoftCapped) {
  auto model = randomized_model(config);
  const auto x = torch::randn({3, 5, 8});
  const auto plain = model->logits(x);
  model->config.logit_scale = 0.5;
  EXPECT_TRUE(close(model->logits(x), plain / 2, 1e-6));
  model->config.final_logit_soft_cap = 0.7;
  EXPECT_TRUE(close(model->logits(x), torch::tanh(plain / 2 / 0.7) * 0.7, 1e-6));
}

TEST_F(LanguageModelTest, InvalidLogitOptionsThrow) {
  config.logit_scale = 0.0;
  EXPECT_THAT([&] { LanguageModel model(config); },
              throws<c10::ValueError>("logit_scale (0) must be finite and not 0"));
  config.logit_scale = 1.0;
  config.final_logit_soft_cap = -1.0;
  EXPECT_THAT([&] { LanguageModel model(config); },
              throws<c10::ValueError>(
                  "final_logit_soft_cap (-1) must be positive and finite, or 0 for none"));
}

}  // namespace
}  // namespace attend
