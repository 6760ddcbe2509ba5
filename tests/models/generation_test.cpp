#include "attend/models/generation.h"

#include "support/seed.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

struct Generation : FixedSeed, testing::Test {
  std::vector<int64_t> run_generate(const GenerationOptions& options, uint64_t seed = 0) {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
    return generate(model_, {1, 2}, options, generator);
  }

  LanguageModel model_{
      LanguageModelConfig{.vocab_size = 9,
                          .max_seq_len = 4,
                          .stack = {.num_layers = 1, .num_heads = 1, .embed_dim = 8}}};
};

TEST_F(Generation, GeneratesBeyondMaxSeqLen) {
  EXPECT_EQ(run_generate({.max_new_tokens = 30}).size(), 30U);
  EXPECT_TRUE(run_generate({.max_new_tokens = 0}).empty());
}

TEST_F(Generation, TemperatureZeroAndTopKOneAreGreedy) {
  const auto greedy = run_generate({.max_new_tokens = 12, .sampling = {.temperature = 0.0}}, 1);
  EXPECT_EQ(run_generate({.max_new_tokens = 12, .sampling = {.temperature = 0.0}}, 2), greedy);
  EXPECT_EQ(run_generate({.max_new_tokens = 12, .sampling = {.top_k = 1}}, 3), greedy);
  EXPECT_EQ(run_generate({.max_new_tokens = 12, .sampling = {.temperature = 1e-30}}, 4), greedy);
  const auto first = model_(torch::tensor({1, 2}, torch::kLong))[-1].argmax().item<int64_t>();
  EXPECT_EQ(greedy.front(), first);
}

TEST_F(Generation, SameSeedGivesSameTokens) {
  EXPECT_EQ(run_generate({.max_new_tokens = 20}, 5), run_generate({.max_new_tokens = 20}, 5));
  EXPECT_NE(run_generate({.max_new_tokens = 20}, 5), run_generate({.max_new_tokens = 20}, 6));
}

TEST_F(Generation, OnTokenReceivesEachTokenAndCanStop) {
  for (const std::size_t max_tokens : {1U, 3U, 99U}) {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{0});
    std::vector<int64_t> received;
    const auto tokens = generate(model_, {1}, {.max_new_tokens = 5}, generator, [&](int64_t token) {
      received.push_back(token);
      return received.size() < max_tokens;
    });
    EXPECT_EQ(received, tokens);
    EXPECT_EQ(tokens.size(), std::min<std::size_t>(max_tokens, 5));
  }
}

TEST_F(Generation, RepetitionPenaltyCountsPromptAndGeneratedTokens) {
  std::vector<int64_t> tokens_so_far{1, 2};
  while (tokens_so_far.size() < 5) {
    const auto logits = model_(torch::tensor(tokens_so_far))[-1];
    tokens_so_far.push_back(
        penalize_repetition(logits, tokens_so_far, 1e9).argmax().item<int64_t>());
  }
  const auto tokens = run_generate(
      {.max_new_tokens = 3, .sampling = {.repetition_penalty = 1e9, .temperature = 0.0}});
  EXPECT_THAT(tokens, testing::ElementsAre(tokens_so_far[2], tokens_so_far[3], tokens_so_far[4]));
  EXPECT_NE(run_generate({.max_new_tokens = 3, .sampling = {.temperature = 0.0}}), tokens);
}

TEST_F(Generation, InvalidOptionsThrow) {
  EXPECT_THROW(run_generate({.sampling = {.temperature = -1.0}}), c10::ValueError);
  EXPECT_THROW(run_generate({.sampling = {.top_k = -2}}), c10::ValueError);
  EXPECT_THROW(run_generate({.max_new_tokens = -1}), c10::ValueError);
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{0});
  EXPECT_THROW(generate(model_, {}, {}, generator), c10::ValueError);
}

}  // namespace
}  // namespace attend
