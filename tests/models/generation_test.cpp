#include "attend/models/generation.h"

#include "support/seed.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

struct Generation : FixedSeed, testing::Test {
  std::vector<int64_t> continue_with(const GenerationOptions& options, uint64_t seed = 0) {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
    return generate(model_, {1, 2}, options, generator);
  }

  LanguageModel model_{
      LanguageModelConfig{.vocab_size = 9,
                          .max_seq_len = 4,
                          .stack = {.num_layers = 1, .num_heads = 1, .embed_dim = 8}}};
};

TEST_F(Generation, GoesOnBeyondTheContext) {
  EXPECT_EQ(continue_with({.max_new_tokens = 30}).size(), 30U);
  EXPECT_TRUE(continue_with({.max_new_tokens = 0}).empty());
}

TEST_F(Generation, TemperatureZeroAndTopOneTakeTheLikeliest) {
  const auto likeliest = continue_with({.max_new_tokens = 12, .sampling = {.temperature = 0.0}}, 1);
  EXPECT_EQ(continue_with({.max_new_tokens = 12, .sampling = {.temperature = 0.0}}, 2), likeliest);
  EXPECT_EQ(continue_with({.max_new_tokens = 12, .sampling = {.top_k = 1}}, 3), likeliest);
  EXPECT_EQ(continue_with({.max_new_tokens = 12, .sampling = {.temperature = 1e-30}}, 4),
            likeliest);
  const auto first = model_(torch::tensor({1, 2}, torch::kLong))[-1].argmax().item<int64_t>();
  EXPECT_EQ(likeliest.front(), first);
}

TEST_F(Generation, TheSameSeedDrawsTheSame) {
  EXPECT_EQ(continue_with({.max_new_tokens = 20}, 5), continue_with({.max_new_tokens = 20}, 5));
  EXPECT_NE(continue_with({.max_new_tokens = 20}, 5), continue_with({.max_new_tokens = 20}, 6));
}

TEST_F(Generation, EachTokenIsHeardAtOnceUntilTheListenerHasEnough) {
  for (const std::size_t enough : {1U, 3U, 99U}) {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{0});
    std::vector<int64_t> heard;
    const auto tokens = generate(model_, {1}, {.max_new_tokens = 5}, generator, [&](int64_t token) {
      heard.push_back(token);
      return heard.size() < enough;
    });
    EXPECT_EQ(heard, tokens);
    EXPECT_EQ(tokens.size(), std::min<std::size_t>(enough, 5));
  }
}

TEST_F(Generation, TheRepetitionPenaltyCountsThePromptAndWhatFollows) {
  std::vector<int64_t> text{1, 2};
  while (text.size() < 5) {
    const auto scores = model_(torch::tensor(text))[-1];
    text.push_back(penalize_repetition(scores, text, 1e9).argmax().item<int64_t>());
  }
  const auto tokens = continue_with(
      {.max_new_tokens = 3, .sampling = {.repetition_penalty = 1e9, .temperature = 0.0}});
  EXPECT_THAT(tokens, testing::ElementsAre(text[2], text[3], text[4]));
  EXPECT_NE(continue_with({.max_new_tokens = 3, .sampling = {.temperature = 0.0}}), tokens);
}

TEST_F(Generation, WrongOptionsNameTheirValue) {
  EXPECT_THROW(continue_with({.sampling = {.temperature = -1.0}}), c10::ValueError);
  EXPECT_THROW(continue_with({.sampling = {.top_k = -2}}), c10::ValueError);
  EXPECT_THROW(continue_with({.max_new_tokens = -1}), c10::ValueError);
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{0});
  EXPECT_THROW(generate(model_, {}, {}, generator), c10::ValueError);
}

}  // namespace
}  // namespace attend
