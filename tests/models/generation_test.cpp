#include "attend/models/generation.h"

#include "ops/autocast.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/throws.h"

#include <torch/nn/module.h>

#include <algorithm>

namespace attend {
namespace {

using Tokens = std::vector<int64_t>;

/// Returns a model with noise added to its parameters: the small initial values would hide
/// differences.
LanguageModel random_model(const LanguageModelConfig& config) {
  LanguageModel model(config);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(0.3 * torch::randn_like(parameter));
  model->eval();
  return model;
}

/// Returns the most likely token after `context`.
int64_t most_likely(LanguageModel& model, at::IntArrayRef context) {
  return model(torch::tensor(context, torch::kLong))[-1].argmax().item<int64_t>();
}

struct Generation : FixedSeed, testing::Test {
  Tokens run_generate(const GenerationOptions& options) {
    return generate(model_, {1, 2}, options).tokens;
  }

  static LanguageModelConfig config() {
    return {.vocab_size = 9,
            .max_seq_len = 4,
            .stack = {.num_layers = 1, .num_heads = 1, .embed_dim = 8}};
  }

  LanguageModel model_ = random_model(config());
  static inline const SamplingOptions kGreedy{.temperature = 0.0};
};

TEST_F(Generation, GeneratesBeyondMaxSeqLen) {
  EXPECT_EQ(run_generate({.max_new_tokens = 30}).size(), 30U);
  EXPECT_TRUE(run_generate({.max_new_tokens = 0}).empty());
}

TEST_F(Generation, TemperatureZeroAndTopKOneAreGreedy) {
  const auto greedy = run_generate({.max_new_tokens = 12, .sampling = kGreedy, .seed = 1});
  EXPECT_EQ(run_generate({.max_new_tokens = 12, .sampling = kGreedy, .seed = 2}), greedy);
  EXPECT_EQ(run_generate({.max_new_tokens = 12, .sampling = {.top_k = 1}, .seed = 3}), greedy);
  EXPECT_EQ(run_generate({.max_new_tokens = 12, .sampling = {.temperature = 1e-30}, .seed = 4}),
            greedy);
  EXPECT_EQ(greedy.front(), most_likely(model_, {1, 2}));
}

TEST_F(Generation, SameSeedGivesSameTokens) {
  const auto first = run_generate({.max_new_tokens = 20, .seed = 5});
  EXPECT_EQ(run_generate({.max_new_tokens = 20, .seed = 5}), first);
  EXPECT_NE(run_generate({.max_new_tokens = 20, .seed = 6}), first);
}

TEST_F(Generation, WithoutSeedTheGlobalGeneratorIsUsed) {
  torch::manual_seed(5);
  const auto first = run_generate({.max_new_tokens = 20});
  EXPECT_NE(run_generate({.max_new_tokens = 20}), first);
  torch::manual_seed(5);
  EXPECT_EQ(run_generate({.max_new_tokens = 20}), first);
  EXPECT_EQ(run_generate({.max_new_tokens = 20, .seed = 5}), first);
}

TEST_F(Generation, OnTokenReceivesEachTokenAndCanStop) {
  for (const std::size_t max_tokens : {1U, 3U, 99U}) {
    Tokens received;
    const auto tokens = run_generate({.max_new_tokens = 5, .on_token = [&](const auto& generated) {
                                        EXPECT_EQ(generated.sequence, 0);
                                        received.push_back(generated.token);
                                        return received.size() < max_tokens;
                                      }});
    EXPECT_EQ(received, tokens);
    EXPECT_EQ(tokens.size(), std::min<std::size_t>(max_tokens, 5));
  }
}

TEST_F(Generation, StopsBeforeEosTokens) {
  const auto whole = run_generate({.max_new_tokens = 12, .sampling = kGreedy});
  for (const auto eos : whole) {
    const auto result = generate(
        model_, {1, 2}, {.max_new_tokens = 12, .eos_tokens = {-1, eos}, .sampling = kGreedy});
    EXPECT_EQ(result.tokens, Tokens(whole.begin(), std::find(whole.begin(), whole.end(), eos)));
    EXPECT_EQ(result.eos_token, eos);
  }
  EXPECT_FALSE(generate(model_, {1, 2}, {.max_new_tokens = 2, .eos_tokens = {99}}).eos_token);
}

TEST_F(Generation, LogProbsMatchTheModel) {
  const GenerationOptions sampled{.max_new_tokens = 3,
                                  .sampling = {.repetition_penalty = 2.0, .top_k = 3},
                                  .seed = 2,
                                  .return_log_probs = true};
  const GenerationOptions beams{.max_new_tokens = 3,
                                .sampling = {.repetition_penalty = 2.0},
                                .num_beams = 2,
                                .return_log_probs = true};
  for (const auto& options : {sampled, beams}) {
    const auto result = generate(model_, {1}, options);
    Tokens sequence{1};
    ASSERT_EQ(result.log_probs.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto expected = model_(torch::tensor(sequence))[-1].log_softmax(0)[result.tokens[i]];
      EXPECT_NEAR(result.log_probs[i], expected.item<double>(), 1e-5);
      sequence.push_back(result.tokens[i]);
    }
  }
  EXPECT_TRUE(generate(model_, {1}, {.max_new_tokens = 3}).log_probs.empty());
  // The stop token is not in `tokens`, but its log-probability is the last one in `log_probs`.
  const auto ended = generate(model_, {1},
                              {.max_new_tokens = 3,
                               .eos_tokens = {most_likely(model_, {1})},
                               .sampling = kGreedy,
                               .return_log_probs = true});
  EXPECT_TRUE(ended.tokens.empty());
  EXPECT_EQ(ended.log_probs.size(), 1U);
}

TEST_F(Generation, RepetitionPenaltyCountsPromptAndGeneratedTokens) {
  Tokens tokens_so_far{1, 2};
  while (tokens_so_far.size() < 4) {
    const auto logits = model_(torch::tensor(tokens_so_far))[-1];
    tokens_so_far.push_back(
        penalize_repetition(logits, tokens_so_far, 1e9).argmax().item<int64_t>());
  }
  const auto tokens = run_generate(
      {.max_new_tokens = 2, .sampling = {.repetition_penalty = 1e9, .temperature = 0.0}});
  EXPECT_EQ(tokens, Tokens(tokens_so_far.begin() + 2, tokens_so_far.end()));
}

TEST_F(Generation, NoStopTokenComesBeforeMinNewTokens) {
  for (const int64_t min_new_tokens : {0, 1, 7, 12}) {
    for (const int64_t num_beams : {1, 3}) {
      SCOPED_TRACE(testing::Message() << min_new_tokens << " tokens, " << num_beams << " beams");
      Tokens all(9);
      std::iota(all.begin(), all.end(), 0);
      all.pop_back();  // token 8 is no stop token
      all.push_back(99);
      const auto result = generate(model_, {1, 2},
                                   {.max_new_tokens = 12,
                                    .min_new_tokens = min_new_tokens,
                                    .eos_tokens = all,
                                    .sampling = kGreedy,
                                    .num_beams = num_beams});
      EXPECT_GE(std::ssize(result.tokens), min_new_tokens);
      EXPECT_THAT(result.tokens, testing::Each(8));
      EXPECT_EQ(result.eos_token.has_value(), std::ssize(result.tokens) < 12);
    }
  }
}

TEST_F(Generation, NoNGramRepeatsInPromptAndGeneratedTokensOfABatch) {
  const std::vector<Tokens> prompts{{1}, {2, 3, 2}, {5, 6, 7, 8, 0, 1, 2}};
  for (const int64_t size : {2, 3}) {
    for (const int64_t num_beams : {1, 3}) {
      GenerationOptions options{.max_new_tokens = 40,
                                .sampling = {.no_repeat_ngram_size = size,
                                             .suppress_tokens = {4},
                                             .temperature = num_beams == 1 ? 0.1 : 1.0},
                                .seed = 3,
                                .num_beams = num_beams};
      std::vector<Tokens> streamed(prompts.size());
      if (num_beams == 1) {
        options.on_token = [&](const GeneratedToken& token) {
          streamed[static_cast<std::size_t>(token.sequence)].push_back(token.token);
          return true;
        };
      }
      const auto results = generate_batch(model_, prompts, options);
      for (std::size_t b = 0; b < prompts.size(); ++b) {
        EXPECT_EQ(results[b].tokens.size(), 40U);
        EXPECT_THAT(results[b].tokens, testing::Not(testing::Contains(4)));
        if (num_beams == 1) {
          EXPECT_EQ(streamed[b], results[b].tokens);
        }
        auto tokens = prompts[b];
        tokens.insert(tokens.end(), results[b].tokens.begin(), results[b].tokens.end());
        std::set<Tokens> ngrams;
        for (auto begin = tokens.begin(); begin + size <= tokens.end(); ++begin)
          ngrams.emplace(begin, begin + size);
        // The prompts contain no n-gram twice.
        EXPECT_EQ(std::ssize(ngrams), std::ssize(tokens) - size + 1) << at::IntArrayRef(tokens);
      }
    }
  }
}

TEST_F(Generation, ThrowsWhenNoTokenMayFollow) {
  for (const int64_t num_beams : {1, 3}) {
    EXPECT_THAT(
        [&] {
          run_generate({.max_new_tokens = 10,
                        .sampling = {.no_repeat_ngram_size = 1},
                        .num_beams = num_beams});
        },
        throws_naming<c10::ValueError>("no_repeat_ngram_size", "1"));
  }
}

TEST_F(Generation, AFullContextDropsItsOldestQuarter) {
  auto case_config = config();
  case_config.max_seq_len = 8;
  auto model = random_model(case_config);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8, 0, 1};
  auto tokens = prompt;
  std::size_t begin = prompt.size() - 8;
  for (int i = 0; i < 30; ++i) {
    if (tokens.size() - begin > 8) begin = tokens.size() - 6;
    tokens.push_back(most_likely(model, at::IntArrayRef(tokens).slice(begin)));
  }
  const auto found = generate(model, prompt, {.max_new_tokens = 30, .sampling = kGreedy}).tokens;
  EXPECT_EQ(found, Tokens(tokens.begin() + 10, tokens.end()));
}

TEST_F(Generation, ASlidingWindowRollsBeyondMaxSeqLen) {
  using P = PositionScheme;
  for (const auto positions : {P::none, P::rotary, P::alibi, P::relative}) {
    for (const bool smeared : {false, true}) {
      SCOPED_TRACE(testing::Message() << to_string(positions) << ", smeared keys " << smeared);
      auto long_config = config();
      long_config.max_seq_len = 60;
      long_config.stack.num_layers = 2;
      long_config.stack.positions = positions;
      long_config.stack.sliding_window = 3;
      long_config.stack.smeared_keys = smeared;
      auto whole = random_model(long_config);
      auto short_config = long_config;
      short_config.max_seq_len = 8;
      auto model = random_model(short_config);
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < model->parameters().size(); ++i) {
        model->parameters()[i].copy_(whole->parameters()[i]);
      }
      for (const int64_t length : {1, 8, 9, 30}) {
        Tokens prompt;
        for (int64_t i = 0; i < length; ++i) prompt.push_back(draw(0, 8));
        const GenerationOptions options{.max_new_tokens = 25, .sampling = kGreedy};
        auto tokens = prompt;
        for (int i = 0; i < 25; ++i) tokens.push_back(most_likely(whole, tokens));
        EXPECT_EQ(generate(model, prompt, options).tokens,
                  Tokens(tokens.begin() + length, tokens.end()));
      }
    }
  }
}

TEST_F(Generation, EachPromptOfABatchEqualsThePromptAlone) {
  const std::vector<Tokens> prompts{{1}, {2, 3, 4}, {5, 6, 7, 8, 0, 1, 2}, {3, 3}, {1}};
  for (const auto& stack : each_stack()) {
    SCOPED_TRACE(stack.name);
    auto model = random_model({.vocab_size = 9, .max_seq_len = 6, .stack = stack.config});
    const GenerationOptions options{.max_new_tokens = 12,
                                    .eos_tokens = {4},
                                    .sampling = {.repetition_penalty = 1.2, .top_k = 5},
                                    .seed = 7,
                                    .return_log_probs = true};
    const auto results = generate_batch(model, prompts, options);
    ASSERT_EQ(results.size(), prompts.size());
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      auto alone_options = options;
      alone_options.seed = 7 + b;
      const auto alone = generate(model, prompts[b], alone_options);
      EXPECT_EQ(results[b].tokens, alone.tokens) << b;
      EXPECT_EQ(results[b].eos_token, alone.eos_token) << b;
      EXPECT_TRUE(close(torch::tensor(results[b].log_probs, torch::kDouble),
                        torch::tensor(alone.log_probs, torch::kDouble), 1e-4));
    }
  }
  EXPECT_TRUE(generate_batch(model_, {}).empty());
}

TEST_F(Generation, LongPromptsOfDifferentLengthsEqualThePromptsAlone) {
  for (const auto positions :
       {PositionScheme::learned, PositionScheme::rotary, PositionScheme::alibi}) {
    for (const int64_t window : {0, 40}) {
      SCOPED_TRACE(testing::Message() << to_string(positions) << ", sliding window " << window);
      auto model = random_model({.vocab_size = 9,
                                 .max_seq_len = window == 0 ? 1200 : 300,
                                 .stack = {.num_layers = 1,
                                           .num_heads = 2,
                                           .embed_dim = 8,
                                           .positions = positions,
                                           .sliding_window = window}});
      std::vector<Tokens> prompts;
      for (const int64_t length : {1100, 700, 3, 1101}) {
        const auto tokens = torch::randint(9, {length});
        prompts.emplace_back(tokens.data_ptr<int64_t>(), tokens.data_ptr<int64_t>() + length);
      }
      const GenerationOptions options{
          .max_new_tokens = 4, .sampling = kGreedy, .return_log_probs = true};
      const auto results = generate_batch(model, prompts, options);
      for (std::size_t b = 0; b < prompts.size(); ++b) {
        const auto alone = generate(model, prompts[b], options);
        EXPECT_TRUE(close(torch::tensor(results[b].log_probs, torch::kDouble),
                          torch::tensor(alone.log_probs, torch::kDouble), 1e-3))
            << b;
      }
    }
  }
}

TEST_F(Generation, OnTokenEndsOnlyItsSequence) {
  std::vector<Tokens> received(3);
  const auto results = generate_batch(
      model_, {{1}, {2, 3}, {4}},
      {.max_new_tokens = 6, .sampling = kGreedy, .on_token = [&](const GeneratedToken& generated) {
         auto& tokens = received[static_cast<std::size_t>(generated.sequence)];
         tokens.push_back(generated.token);
         return generated.sequence != 1 || tokens.size() < 2;
       }});
  for (std::size_t b = 0; b < 3; ++b) EXPECT_EQ(results[b].tokens, received[b]);
  EXPECT_EQ(received[0].size(), 6U);
  EXPECT_EQ(received[1].size(), 2U);
}

TEST_F(Generation, TakesConstModelsAndTemporaries) {
  const LanguageModel constant = model_;
  const GenerationOptions options{.max_new_tokens = 3, .sampling = kGreedy};
  EXPECT_EQ(generate(constant, {1}, options).tokens, generate(model_, {1}, options).tokens);
  EXPECT_EQ(generate(random_model(config()), {1}, options).tokens.size(), 3U);
}

TEST_F(Generation, AnyModuleInTrainingModeThrows) {
  model_->decoder->blocks[0]->as<TransformerBlock>()->attention->train();
  EXPECT_THAT(
      [&] { run_generate({}); },
      throws<c10::ValueError>("generate requires eval mode, found decoder.blocks.0.attention "
                              "in training mode: call model->eval() first"));
  model_->train();
  EXPECT_THAT([&] { run_generate({}); }, throws<c10::ValueError>("call model->eval() first"));
  EXPECT_TRUE(model_->embedding->is_training());
}

TEST_F(Generation, ReplacedSubmoduleThrows) {
  model_->decoder->replace_module("norm", model_->decoder->norm.ptr()->clone())->eval();
  EXPECT_THAT([&] { run_generate({}); },
              throws<c10::ValueError>("submodule norm of attend::TransformerEncoderImpl"));
}

TEST_F(Generation, WorksUnderAutocast) {
  for (const auto& stack : each_stack()) {
    SCOPED_TRACE(stack.name);
    auto model = random_model({.vocab_size = 9, .max_seq_len = 6, .stack = stack.config});
    const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
    EXPECT_EQ(generate(model, {1}, {.max_new_tokens = 9}).tokens.size(), 9U);
  }
}

TEST_F(Generation, HugeWindowsNeedNoMoreMemoryThanMaxSeqLen) {
  auto case_config = config();
  case_config.stack.positions = PositionScheme::rotary;
  auto model = random_model(case_config);
  case_config.stack.sliding_window = 1'000'000'000'000;
  auto windowed = random_model(case_config);
  EXPECT_LE(windowed->make_cache(1).max_seq_len(), 8);
  EXPECT_EQ(generate(windowed, {1}, {.max_new_tokens = 9}).tokens.size(), 9U);
}

TEST_F(Generation, InvalidOptionsThrow) {
  const auto call = [this](const GenerationOptions& options) {
    return [this, options] { run_generate(options); };
  };
  EXPECT_THAT(call({.sampling = {.temperature = -1.0}}),
              throws<c10::ValueError>("temperature (-1)"));
  EXPECT_THAT(call({.sampling = {.top_k = -2}}), throws<c10::ValueError>("top_k (-2)"));
  EXPECT_THAT(call({.max_new_tokens = -1}), throws<c10::ValueError>("max_new_tokens (-1)"));
  EXPECT_THAT(call({.min_new_tokens = -1}), throws<c10::ValueError>("min_new_tokens (-1)"));
  EXPECT_THAT(call({.max_new_tokens = 3, .min_new_tokens = 4}),
              throws_naming<c10::ValueError>("min_new_tokens", "4", "max_new_tokens", "3"));
  EXPECT_THAT(call({.sampling = {.suppress_tokens = {9}}}),
              throws_naming<c10::ValueError>("suppress_tokens", "9", "8"));
  EXPECT_THAT(call({.num_beams = 0}), throws<c10::ValueError>("num_beams (0)"));
  EXPECT_THAT(call({.num_beams = 2, .length_penalty = NAN}),
              throws<c10::ValueError>("length_penalty (nan)"));
  EXPECT_THAT(call({.sampling = {.top_k = 3}, .num_beams = 2}),
              throws<c10::ValueError>("num_beams (2) must be 1 for sampling"));
  EXPECT_THAT(call({.num_beams = 2, .on_token = [](const auto&) { return true; }}),
              throws<c10::ValueError>("num_beams (2) must be 1 with on_token"));
}

TEST_F(Generation, EmptyPromptsThrow) {
  EXPECT_THAT([&] { generate(model_, {}); },
              throws<c10::ValueError>("prompt 0 is empty, expected at least one token"));
  EXPECT_THAT(
      [&] {
        generate_batch(model_, {{1}, {}});
      },
      throws<c10::ValueError>("prompt 1 is empty"));
}

TEST_F(Generation, NonFiniteLogitsThrow) {
  const torch::NoGradGuard no_grad;
  model_->embedding->token->weight.fill_(NAN);
  for (const int64_t num_beams : {1, 2}) {
    EXPECT_THAT([&] { run_generate({.num_beams = num_beams}); },
                throws<c10::Error>("the logits contain NaN"));
  }
}

}  // namespace
}  // namespace attend
