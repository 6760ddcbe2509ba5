#include "attend/models/language_model.h"
#include "attend/ops/flop_counter.h"
#include "ops/autocast.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/throws.h"

#include <torch/nn/modules/container/any.h>

namespace attend {
namespace {

struct LanguageModelStep : testing::TestWithParam<NamedStack> {
  LanguageModelStep() {
    torch::manual_seed(3);
    model = LanguageModel(
        LanguageModelConfig{.vocab_size = 11, .max_seq_len = 6, .stack = GetParam().config});
    for (auto& parameter : model->parameters()) {
      parameter.add_(0.3 * torch::randn_like(parameter));
    }
    model->eval();
  }

  const torch::NoGradGuard no_grad;
  LanguageModel model{nullptr};
};

INSTANTIATE_TEST_SUITE_P(EachStack, LanguageModelStep, testing::ValuesIn(each_stack()),
                         NameOfStack());

TEST_P(LanguageModelStep, LogitsToKeepReturnsTheLastPositions) {
  const auto tokens = torch::randint(0, 11, {2, 5}, torch::kLong);
  const auto whole = model(tokens);  // (2, 5, 11)
  for (const int64_t count : {0, 1, 3, 5, 9}) {
    auto cache = model->make_cache(2);
    const auto kept = count == 0 ? whole : whole.slice(1, -count);
    EXPECT_TRUE(close(model->step(tokens, cache, {}, count), kept, 1e-4)) << count;
  }
}

// A failed step must not change the results of later steps.
TEST_P(LanguageModelStep, CacheIsUnchangedAfterAnInvalidToken) {
  const auto tokens = torch::randint(0, 11, {2, 6}, torch::kLong);
  auto cache = model->make_cache(2);
  std::vector<torch::Tensor> logits;
  for (int64_t t = 0; t < 6; ++t) {
    for (const int64_t invalid : {-1, 11}) {
      EXPECT_THROW(model->step(torch::full({2, 1}, invalid, torch::kLong), cache), c10::ValueError);
      EXPECT_THAT(cache.lengths(), testing::ElementsAre(t, t));
    }
    logits.push_back(model->step(tokens.narrow(1, t, 1), cache));
  }
  EXPECT_TRUE(close(torch::cat(logits, 1), model(tokens), 1e-4));
}

TEST_P(LanguageModelStep, CacheIsUnchangedAfterAnExceptionInALayer) {
  if (GetParam().config.num_layers == 0) GTEST_SKIP() << "the model has no layers";
  // With a sliding window, the cache overwrites old tokens. The sequence can then be longer than
  // max_seq_len (6), unless the positions are learned.
  const bool rolls = GetParam().config.sliding_window > 0 &&
                     GetParam().config.positions != PositionScheme::learned;
  const int64_t length = rolls ? 40 : 6;
  const auto tokens = torch::randint(0, 11, {1, length}, torch::kLong);
  auto undisturbed = model->make_cache(1);
  auto cache = model->make_cache(1);
  const auto last = model->decoder->blocks->size() - 1;
  auto& feed_forward = model->decoder->blocks[last]->as<TransformerBlock>()->feed_forward;
  for (int64_t t = 0; t < length; ++t) {
    const auto working = feed_forward;
    feed_forward = torch::nn::AnyModule(torch::nn::Linear(3, 3));  // throws: wrong width
    EXPECT_ANY_THROW(model->step(tokens.narrow(1, t, 1).repeat({1, rolls ? 3 : 1}), cache));
    feed_forward = working;
    EXPECT_THAT(cache.lengths(), testing::ElementsAre(t));
    const auto token = tokens.narrow(1, t, 1);
    EXPECT_TRUE(close(model->step(token, cache), model->step(token, undisturbed), 1e-5)) << t;
  }
}

TEST_P(LanguageModelStep, CacheHasTheDtypeOfAutocast) {
  const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
  const auto tokens = torch::randint(0, 11, {2, 6}, torch::kLong);
  const auto whole = model(tokens);
  auto cache = model->make_cache(2);
  std::vector<torch::Tensor> logits;
  for (const auto& piece : tokens.split_with_sizes({3, 1, 2}, 1)) {
    logits.push_back(model->step(piece, cache));
  }
  EXPECT_TRUE(close(torch::cat(logits, 1), whole, 0.25));
}

TEST(LanguageModelCache, CreatedBeforeAutocastAdoptsItsDtype) {
  torch::manual_seed(4);
  const torch::NoGradGuard no_grad;
  LanguageModel model(LanguageModelConfig{.vocab_size = 11, .max_seq_len = 6});
  model->eval();
  auto cache = model->make_cache(1);
  const auto tokens = torch::tensor({{1, 2, 3}});
  const auto before = model->step(tokens.narrow(1, 0, 1), cache);
  const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
  const auto after = model->step(tokens.narrow(1, 1, 2), cache);
  EXPECT_TRUE(close(torch::cat({before.to(after.scalar_type()), after}, 1), model(tokens), 0.1));
}

TEST(LanguageModelCache, PrefillComputesOnlyTheLogitsToKeep) {
  const torch::NoGradGuard no_grad;
  LanguageModel model(LanguageModelConfig{.vocab_size = 1000, .max_seq_len = 64});
  const auto flops = [&](int64_t logits_to_keep) {
    auto cache = model->make_cache(1);
    const FlopCounter counter;
    model->step(torch::zeros({1, 64}, torch::kLong), cache, {}, logits_to_keep);
    return counter.flops();
  };
  EXPECT_EQ(flops(0) - flops(1), 63 * 2 * 64 * 1000);
}

TEST(LanguageModelCache, RollsWithSmearedKeys) {
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  LanguageModelConfig config{.vocab_size = 11,
                             .max_seq_len = 30,
                             .stack = {.num_layers = 2,
                                       .num_heads = 2,
                                       .embed_dim = 8,
                                       .positions = PositionScheme::rotary,
                                       .sliding_window = 3,
                                       .smeared_keys = true}};
  LanguageModel model(config);
  model->eval();
  const auto tokens = torch::randint(0, 11, {2, 30}, torch::kLong);
  for (const int64_t piece : {1, 2, 4}) {
    auto cache = model->make_cache(2, /*max_seq_len=*/4);
    std::vector<torch::Tensor> logits;
    for (const auto& each : tokens.split(piece, 1)) logits.push_back(model->step(each, cache));
    EXPECT_TRUE(close(torch::cat(logits, 1), model(tokens), 1e-5)) << piece;
  }
}

TEST(LanguageModelCache, InvalidArgumentsThrow) {
  const torch::NoGradGuard no_grad;
  LanguageModel model(LanguageModelConfig{.vocab_size = 11, .max_seq_len = 6});
  auto cache = model->make_cache(1);
  EXPECT_THAT([&] { model->step(torch::tensor({1}), cache); },
              throws<c10::ValueError>("tokens must have shape (B, T), found [1]"));
  EXPECT_THAT([&] { model->step(torch::tensor({{1}}), cache, {}, -1); },
              throws<c10::ValueError>("logits_to_keep (-1)"));
}

}  // namespace
}  // namespace attend
