#include "attend/models/generation.h"
#include "attend/nn/eval_guard.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/throws.h"

#include <algorithm>

namespace attend {
namespace {

struct Seq2SeqGeneration : FixedSeed, testing::Test {
  static Seq2Seq lively(const StackConfig& stack) {
    Seq2Seq model(Seq2SeqConfig{
        .source_vocab_size = 11, .target_vocab_size = 7, .max_seq_len = 8, .stack = stack});
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.add_(0.3 * torch::randn_like(parameter));
    return model;
  }

  std::vector<int64_t> answer(const AnswerTokens& around, const GenerationOptions& options) {
    return generate(model, source, around, options);
  }

  Seq2Seq model = lively({.num_layers = 2, .num_heads = 2, .embed_dim = 8});
  std::vector<int64_t> source{3, 1, 10};
};

TEST_F(Seq2SeqGeneration, StepsGiveTheLogitsOfTheWholeTargetWithEachStack) {
  for (const auto& stack : each_stack()) {
    if (stack.config.num_experts > 0 || stack.config.norm_order == NormOrder::parallel) continue;
    SCOPED_TRACE(stack.name);
    auto model = lively(stack.config);
    const EvalGuard eval(*model);
    const torch::NoGradGuard no_grad;
    const auto source = torch::randint(0, 11, {2, 5}, torch::kLong);
    const auto target = torch::randint(0, 7, {2, 8}, torch::kLong);
    const auto valid = torch::rand({2, 5}) > 0.3;
    const auto memory = model->encode(source, valid);
    auto cache = model->make_cache(2);
    std::vector<torch::Tensor> steps;
    for (const auto& piece : target.split_with_sizes({3, 1, 1, 2, 1}, 1)) {
      steps.push_back(model->step(piece, memory, cache, valid));
    }
    EXPECT_TRUE(close(torch::cat(steps, 1), model->forward(source, target, valid), 1e-4));
  }
}

TEST_F(Seq2SeqGeneration, GreedyAnswersAreTheLikeliestTokensUpToTheEnd) {
  std::vector<int64_t> expected{2};
  while (expected.size() <= 8) {
    const auto logits = model->forward(torch::tensor(source), torch::tensor(expected));  // (T, V)
    expected.push_back(logits[-1].argmax().item<int64_t>());
  }
  expected.erase(expected.begin());
  const GenerationOptions greedy{.sampling = {.temperature = 0.0}};
  EXPECT_EQ(answer({.begin = 2, .end = -1}, greedy), expected);
  for (const auto end : expected) {
    const auto found = std::find(expected.begin(), expected.end(), end);
    EXPECT_EQ(answer({.begin = 2, .end = end}, greedy),
              std::vector<int64_t>(expected.begin(), found));
  }
}

TEST_F(Seq2SeqGeneration, AnswersEndWithTheContextOrEarlier) {
  EXPECT_EQ(answer({.begin = 0, .end = -1}, {.max_new_tokens = 100}).size(), 8U);
  EXPECT_EQ(answer({.begin = 0, .end = -1}, {.max_new_tokens = 3}).size(), 3U);
  EXPECT_TRUE(answer({.begin = 0, .end = -1}, {.max_new_tokens = 0}).empty());
}

TEST_F(Seq2SeqGeneration, EachTokenIsToldAtOnceAndMayBeTheLast) {
  const GenerationOptions greedy{.sampling = {.temperature = 0.0}};
  const AnswerTokens around{.begin = 2, .end = -1};
  const auto whole = answer(around, greedy);
  std::vector<int64_t> heard;
  const auto stopped = generate(model, source, around, greedy, {}, [&](int64_t token) {
    heard.push_back(token);
    return heard.size() < 3;
  });
  EXPECT_EQ(heard, std::vector<int64_t>(whole.begin(), whole.begin() + 3));
  EXPECT_EQ(stopped, heard);
}

TEST_F(Seq2SeqGeneration, TheRepetitionPenaltyCountsTheAnswer) {
  std::vector<int64_t> target{2};
  while (target.size() <= 8) {
    const auto scores = model->forward(torch::tensor(source), torch::tensor(target))[-1];  // (V)
    const at::IntArrayRef answer(target.data() + 1, target.size() - 1);
    target.push_back(penalize_repetition(scores, answer, 4.0).argmax().item<int64_t>());
  }
  target.erase(target.begin());
  const AnswerTokens around{.begin = 2, .end = -1};
  EXPECT_EQ(answer(around, {.sampling = {.repetition_penalty = 4.0, .temperature = 0.0}}), target);
  EXPECT_NE(answer(around, {.sampling = {.temperature = 0.0}}), target);
}

TEST_F(Seq2SeqGeneration, WrongInputNamesItsValue) {
  EXPECT_THAT([&] { generate(model, {}, {}); }, throws<c10::ValueError>("found none"));
  EXPECT_THAT([&] { answer({}, {.max_new_tokens = -1}); },
              throws<c10::ValueError>("max_new_tokens (-1)"));
  EXPECT_THAT([&] { answer({}, {.sampling = {.top_p = 2.0}}); },
              throws<c10::ValueError>("top_p (2)"));
}

}  // namespace
}  // namespace attend
