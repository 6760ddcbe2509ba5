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
  static Seq2Seq randomized_model(const StackConfig& stack) {
    Seq2Seq model(Seq2SeqConfig{
        .source_vocab_size = 11, .target_vocab_size = 7, .max_seq_len = 8, .stack = stack});
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.add_(0.3 * torch::randn_like(parameter));
    return model;
  }

  std::vector<int64_t> run_generate(const SequenceTokens& special_tokens,
                                    const GenerationOptions& options) {
    return generate(model, source, special_tokens, options);
  }

  Seq2Seq model = randomized_model({.num_layers = 2, .num_heads = 2, .embed_dim = 8});
  std::vector<int64_t> source{3, 1, 10};
};

TEST_F(Seq2SeqGeneration, StepsWithKvCacheEqualForwardForEachStack) {
  for (const auto& stack : each_stack()) {
    if (stack.config.num_experts > 0 || stack.config.norm_order == NormOrder::parallel) continue;
    SCOPED_TRACE(stack.name);
    auto model = randomized_model(stack.config);
    const EvalGuard eval(*model);
    const torch::NoGradGuard no_grad;
    const auto source = torch::randint(0, 11, {2, 5}, torch::kLong);
    const auto target = torch::randint(0, 7, {2, 8}, torch::kLong);
    const auto key_mask = torch::rand({2, 5}) > 0.3;
    const auto memory = model->encode(source, key_mask);
    auto cache = model->make_cache(2);
    std::vector<torch::Tensor> steps;
    for (const auto& piece : target.split_with_sizes({3, 1, 1, 2, 1}, 1)) {
      steps.push_back(model->step(piece, memory, cache, key_mask));
    }
    EXPECT_TRUE(close(torch::cat(steps, 1), model->forward(source, target, key_mask), 1e-4));
  }
}

TEST_F(Seq2SeqGeneration, GreedyDecodingStopsAtEosToken) {
  std::vector<int64_t> expected{2};
  while (expected.size() <= 8) {
    const auto logits = model->forward(torch::tensor(source), torch::tensor(expected));  // (T, V)
    expected.push_back(logits[-1].argmax().item<int64_t>());
  }
  expected.erase(expected.begin());
  const GenerationOptions greedy{.sampling = {.temperature = 0.0}};
  EXPECT_EQ(run_generate({.bos_token = 2, .eos_token = -1}, greedy), expected);
  for (const auto end : expected) {
    const auto found = std::find(expected.begin(), expected.end(), end);
    EXPECT_EQ(run_generate({.bos_token = 2, .eos_token = end}, greedy),
              std::vector<int64_t>(expected.begin(), found));
  }
}

TEST_F(Seq2SeqGeneration, LengthIsLimitedByMaxSeqLenAndMaxNewTokens) {
  EXPECT_EQ(run_generate({.bos_token = 0, .eos_token = -1}, {.max_new_tokens = 100}).size(), 8U);
  EXPECT_EQ(run_generate({.bos_token = 0, .eos_token = -1}, {.max_new_tokens = 3}).size(), 3U);
  EXPECT_TRUE(run_generate({.bos_token = 0, .eos_token = -1}, {.max_new_tokens = 0}).empty());
}

TEST_F(Seq2SeqGeneration, OnTokenReceivesEachTokenAndCanStop) {
  const GenerationOptions greedy{.sampling = {.temperature = 0.0}};
  const SequenceTokens special_tokens{.bos_token = 2, .eos_token = -1};
  const auto whole = run_generate(special_tokens, greedy);
  std::vector<int64_t> received;
  const auto stopped = generate(model, source, special_tokens, greedy, {}, [&](int64_t token) {
    received.push_back(token);
    return received.size() < 3;
  });
  EXPECT_EQ(received, std::vector<int64_t>(whole.begin(), whole.begin() + 3));
  EXPECT_EQ(stopped, received);
}

TEST_F(Seq2SeqGeneration, RepetitionPenaltyCountsTargetTokens) {
  std::vector<int64_t> target{2};
  while (target.size() <= 8) {
    const auto logits = model->forward(torch::tensor(source), torch::tensor(target))[-1];  // (V)
    const at::IntArrayRef generated(target.data() + 1, target.size() - 1);
    target.push_back(penalize_repetition(logits, generated, 4.0).argmax().item<int64_t>());
  }
  target.erase(target.begin());
  const SequenceTokens special_tokens{.bos_token = 2, .eos_token = -1};
  EXPECT_EQ(
      run_generate(special_tokens, {.sampling = {.repetition_penalty = 4.0, .temperature = 0.0}}),
      target);
  EXPECT_NE(run_generate(special_tokens, {.sampling = {.temperature = 0.0}}), target);
}

TEST_F(Seq2SeqGeneration, InvalidArgumentsThrow) {
  EXPECT_THAT([&] { generate(model, {}, {}); }, throws<c10::ValueError>("the source is empty"));
  EXPECT_THAT([&] { run_generate({}, {.max_new_tokens = -1}); },
              throws<c10::ValueError>("max_new_tokens (-1)"));
  EXPECT_THAT([&] { run_generate({}, {.sampling = {.top_p = 2.0}}); },
              throws<c10::ValueError>("top_p (2)"));
}

}  // namespace
}  // namespace attend
