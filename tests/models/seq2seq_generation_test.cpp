#include "attend/models/generation.h"
#include "attend/ops/flop_counter.h"
#include "ops/autocast.h"
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
    model->eval();
    return model;
  }

  std::vector<int64_t> run_generate(const SequenceTokens& special_tokens,
                                    const GenerationOptions& options) {
    return generate(model, source, special_tokens, options).tokens;
  }

  Seq2Seq model = randomized_model({.num_layers = 2, .num_heads = 2, .embed_dim = 8});
  std::vector<int64_t> source{3, 1, 10};
};

TEST_F(Seq2SeqGeneration, StepsWithKvCacheEqualForwardForEachStack) {
  for (const auto& stack : each_stack()) {
    SCOPED_TRACE(stack.name);
    auto model = randomized_model(stack.config);
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

TEST_F(Seq2SeqGeneration, EachSourceOfABatchEqualsTheSourceAlone) {
  const std::vector<std::vector<int64_t>> sources{{3}, {1, 2, 10, 4}, {5, 5, 6, 7, 8, 9, 10}};
  const SequenceTokens special_tokens{.bos_token = 0, .eos_token = 1};
  for (const auto& stack : each_stack()) {
    SCOPED_TRACE(stack.name);
    auto model = randomized_model(stack.config);
    const GenerationOptions options{.eos_tokens = {5}, .seed = 2, .return_log_probs = true};
    const auto results = generate_batch(model, sources, special_tokens, options);
    for (std::size_t b = 0; b < sources.size(); ++b) {
      auto alone_options = options;
      alone_options.seed = 2 + b;
      const auto alone = generate(model, sources[b], special_tokens, alone_options);
      EXPECT_EQ(results[b].tokens, alone.tokens) << b;
      EXPECT_EQ(results[b].eos_token, alone.eos_token) << b;
      EXPECT_TRUE(close(torch::tensor(results[b].log_probs, torch::kDouble),
                        torch::tensor(alone.log_probs, torch::kDouble), 1e-4));
    }
  }
}

TEST_F(Seq2SeqGeneration, MemoryIsProjectedOnce) {
  const torch::NoGradGuard no_grad;
  const auto memory = model->encode(torch::randint(0, 11, {1, 8}, torch::kLong));
  auto cache = model->make_cache(1);
  const auto flops_of_step = [&](const torch::Tensor& m) {
    const FlopCounter counter;
    model->step(torch::zeros({1, 1}, torch::kLong), m, cache);
    return counter.flops();
  };
  const auto first = flops_of_step(memory);
  // The model has 2 layers. The first step computes the keys and values of the 8 memory tokens. In
  // each layer, this uses 8 * 16 weights and costs 2 FLOPs per weight and token. The second and the
  // third step do not compute them again. The fourth step does, since `memory.clone()` is another
  // tensor. Each step attends to one token more than the previous step. In each layer, this token
  // costs 4 FLOPs for each of the 8 channels.
  EXPECT_EQ(first - flops_of_step(memory), 2 * (8 * 2 * 8 * 16 - 4 * 8));
  const auto third = flops_of_step(memory);
  EXPECT_EQ(flops_of_step(memory.clone()) - third, 2 * (8 * 2 * 8 * 16 + 4 * 8));
}

TEST_F(Seq2SeqGeneration, AnotherOrChangedMemoryIsProjectedAgain) {
  const torch::NoGradGuard no_grad;
  const auto target = torch::randint(0, 7, {1, 2}, torch::kLong);
  const auto first = model->encode(torch::randint(0, 11, {1, 8}, torch::kLong));
  const auto second = model->encode(torch::randint(0, 11, {1, 8}, torch::kLong));
  const auto step = [&](int64_t t, const torch::Tensor& memory, KvCache& cache) {
    return model->step(target.narrow(1, t, 1), memory, cache);
  };
  auto expected_cache = model->make_cache(1);
  step(0, first, expected_cache);
  const auto expected = step(1, second.clone(), expected_cache);

  auto cache = model->make_cache(1);
  step(0, first, cache);
  EXPECT_TRUE(close(step(1, second, cache), expected, 0.0));
  cache.clear();
  const auto memory = first.clone();
  step(0, memory, cache);
  memory.copy_(second);
  EXPECT_TRUE(close(step(1, memory, cache), expected, 0.0));
}

TEST_F(Seq2SeqGeneration, WorksUnderAutocast) {
  for (const auto& stack : each_stack()) {
    SCOPED_TRACE(stack.name);
    auto model = randomized_model(stack.config);
    const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
    EXPECT_LE(generate(model, source, {.bos_token = 0, .eos_token = 1}, {}).tokens.size(), 8U);
  }
}

TEST_F(Seq2SeqGeneration, CacheIsUnchangedAfterAFailedStep) {
  const torch::NoGradGuard no_grad;
  const auto memory = model->encode(torch::randint(0, 11, {1, 5}, torch::kLong));
  const auto target = torch::randint(0, 7, {1, 4}, torch::kLong);
  auto undisturbed = model->make_cache(1);
  auto cache = model->make_cache(1);
  for (int64_t t = 0; t < 4; ++t) {
    const auto token = target.narrow(1, t, 1);
    EXPECT_THROW(model->step(torch::full_like(token, 7), memory, cache), c10::ValueError);
    EXPECT_THROW(model->step(token, memory.slice(-1, 1), cache), c10::ValueError);
    EXPECT_ANY_THROW(model->step(token, memory, cache, torch::ones({1, 9}, torch::kBool)));
    EXPECT_EQ(cache.lengths(), std::vector<int64_t>{t});
    EXPECT_TRUE(
        close(model->step(token, memory, cache), model->step(token, memory, undisturbed), 0.0));
  }
}

TEST_F(Seq2SeqGeneration, TrainingModeThrows) {
  model->train();
  EXPECT_THAT(
      [&] { run_generate({}, {}); },
      throws<c10::ValueError>("generate requires eval mode, found a model in training mode"));
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
  const auto stopped = run_generate(
      special_tokens, {.sampling = {.temperature = 0.0}, .on_token = [&](const auto& generated) {
                         received.push_back(generated.token);
                         return received.size() < 3;
                       }});
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
  EXPECT_THAT([&] { generate(model, {}, {}); }, throws<c10::ValueError>("source 0 is empty"));
  EXPECT_THAT([&] { run_generate({}, {.max_new_tokens = -1}); },
              throws<c10::ValueError>("max_new_tokens (-1)"));
  EXPECT_THAT([&] { run_generate({}, {.sampling = {.top_p = 2.0}}); },
              throws<c10::ValueError>("top_p (2)"));
}

}  // namespace
}  // namespace attend
