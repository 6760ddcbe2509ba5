// Compares beam search with an exhaustive search and with a simple implementation.
#include "attend/models/generation.h"
#include "support/seed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace attend {
namespace {

using Tokens = std::vector<int64_t>;
/// Returns the log-probability of each token id as the next token after `generated`.
using NextLogProbs = std::function<std::vector<double>(const Tokens& generated)>;

constexpr int64_t kNumTokens = 4;
constexpr int64_t kEos = 3;

struct Hypothesis {
  Tokens tokens = {};  ///< including the stop token
  double sum = 0.0;

  bool ended() const { return !tokens.empty() && tokens.back() == kEos; }
  double score(double length_penalty) const {
    return sum / std::pow(static_cast<double>(tokens.size()), length_penalty);
  }
};

std::vector<Hypothesis> extensions(const Hypothesis& hypothesis, const NextLogProbs& next) {
  std::vector<Hypothesis> all;
  const auto log_probs = next(hypothesis.tokens);
  for (int64_t token = 0; token < kNumTokens; ++token) {
    if (!std::isfinite(log_probs[static_cast<std::size_t>(token)])) continue;
    all.push_back(hypothesis);
    all.back().tokens.push_back(token);
    all.back().sum += log_probs[static_cast<std::size_t>(token)];
  }
  return all;
}

Tokens best_of(const std::vector<Hypothesis>& all, double length_penalty) {
  auto best = *std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return a.score(length_penalty) < b.score(length_penalty);
  });
  if (best.ended()) best.tokens.pop_back();
  return best.tokens;
}

/// Searches all sequences of at most `max_tokens` tokens that end with kEos, and all sequences of
/// `max_tokens` tokens without kEos. Returns the best of them. If it ends with kEos, this token is
/// removed.
Tokens exhaustive_search(int64_t max_tokens, double length_penalty, const NextLogProbs& next) {
  std::vector<Hypothesis> finished;
  std::vector<Hypothesis> live(1);
  for (int64_t length = 0; length < max_tokens; ++length) {
    std::vector<Hypothesis> longer;
    for (const auto& hypothesis : live) {
      for (const auto& each : extensions(hypothesis, next)) {
        (each.ended() ? finished : longer).push_back(each);
      }
    }
    live = longer;
  }
  finished.insert(finished.end(), live.begin(), live.end());
  return best_of(finished, length_penalty);
}

/// Beam search that always runs for `max_tokens` steps.
Tokens plain_beam_search(std::size_t num_beams, int64_t max_tokens, double length_penalty,
                         const NextLogProbs& next) {
  std::vector<Hypothesis> finished;
  std::vector<Hypothesis> live(1);
  for (int64_t length = 0; length < max_tokens; ++length) {
    std::vector<Hypothesis> candidates;
    for (const auto& hypothesis : live) {
      const auto more = extensions(hypothesis, next);
      candidates.insert(candidates.end(), more.begin(), more.end());
    }
    std::sort(candidates.begin(), candidates.end(),
              [](const auto& a, const auto& b) { return a.sum > b.sum; });
    live.clear();
    for (std::size_t rank = 0; rank < candidates.size() && live.size() < num_beams; ++rank) {
      if (!candidates[rank].ended()) {
        live.push_back(candidates[rank]);
      } else if (rank < num_beams) {
        finished.push_back(candidates[rank]);
      }
    }
  }
  finished.insert(finished.end(), live.begin(), live.end());
  return best_of(finished, length_penalty);
}

template <typename Model>
Model with_large_weights(Model model) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(0.5 * torch::randn_like(parameter));
  model->eval();
  return model;
}

std::vector<double> last_log_probs(const torch::Tensor& logits) {
  const auto last = logits[-1].to(torch::kDouble).log_softmax(0).contiguous();
  return {last.const_data_ptr<double>(), last.const_data_ptr<double>() + last.numel()};
}

/// Base class of fixtures. Seeds the generator before the members of the fixture draw random
/// numbers.
struct FreshSeed {
  FreshSeed() { seed_afresh(); }
};

struct BeamSearchOfLanguageModel : FreshSeed, testing::Test {
  NextLogProbs after(Tokens prompt) {
    return [this, prompt = std::move(prompt)](const Tokens& generated) {
      auto tokens = prompt;
      tokens.insert(tokens.end(), generated.begin(), generated.end());
      return last_log_probs(model(torch::tensor(tokens)));
    };
  }
  Tokens search(const Tokens& prompt, int64_t num_beams, int64_t max_tokens,
                double length_penalty) {
    return generate(model, prompt,
                    {.max_new_tokens = max_tokens,
                     .eos_tokens = {kEos},
                     .num_beams = num_beams,
                     .length_penalty = length_penalty})
        .tokens;
  }

  const torch::NoGradGuard no_grad;
  LanguageModel model = with_large_weights(LanguageModel(
      LanguageModelConfig{.vocab_size = kNumTokens,
                          .max_seq_len = 12,
                          .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}}));
};

TEST_F(BeamSearchOfLanguageModel, EnoughBeamsFindTheBestOfAllSequences) {
  for (const double length_penalty : {-1.0, 0.0, 0.7, 1.0, 2.0}) {
    for (const int64_t max_tokens : {1, 2, 4}) {
      const Tokens prompt{draw(0, 3), draw(0, 3)};
      EXPECT_EQ(search(prompt, /*num_beams=*/400, max_tokens, length_penalty),
                exhaustive_search(max_tokens, length_penalty, after(prompt)))
          << "length_penalty " << length_penalty << ", max_tokens " << max_tokens;
    }
  }
}

TEST_F(BeamSearchOfLanguageModel, EqualsThePlainImplementation) {
  for (const double length_penalty : {-0.5, 0.0, 1.0, 3.0}) {
    for (const int64_t num_beams : {2, 3, 5}) {
      const Tokens prompt{draw(0, 3)};
      EXPECT_EQ(
          search(prompt, num_beams, 8, length_penalty),
          plain_beam_search(static_cast<std::size_t>(num_beams), 8, length_penalty, after(prompt)))
          << "length_penalty " << length_penalty << ", num_beams " << num_beams;
    }
  }
}

TEST_F(BeamSearchOfLanguageModel, EachPromptOfABatchEqualsThePromptAlone) {
  const std::vector<Tokens> prompts{{1}, {2, 0, 1}, {0, 0}, {1, 2, 2, 1}};
  const GenerationOptions options{
      .max_new_tokens = 20, .eos_tokens = {kEos}, .num_beams = 3, .return_log_probs = true};
  const auto results = generate_batch(model, prompts, options);
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    const auto alone = generate(model, prompts[b], options);
    EXPECT_EQ(results[b].tokens, alone.tokens) << b;
    EXPECT_EQ(results[b].eos_token, alone.eos_token) << b;
    EXPECT_EQ(results[b].log_probs.size(), alone.tokens.size() + (alone.eos_token ? 1 : 0));
  }
}

TEST_F(BeamSearchOfLanguageModel, RepetitionPenaltyApplies) {
  const auto penalized = [&](const Tokens& generated) {
    Tokens tokens{1};
    tokens.insert(tokens.end(), generated.begin(), generated.end());
    return last_log_probs(
        penalize_repetition(model(torch::tensor(tokens))[-1], tokens, 1.5).unsqueeze(0));
  };
  EXPECT_EQ(generate(model, {1},
                     {.max_new_tokens = 5,
                      .eos_tokens = {kEos},
                      .sampling = {.repetition_penalty = 1.5},
                      .num_beams = 2})
                .tokens,
            plain_beam_search(2, 5, 1.0, penalized));
}

TEST_F(BeamSearchOfLanguageModel, SuppressedTokensHaveNoEffectOnTheScoresOfOthers) {
  for (const int64_t num_beams : {2, 3, 5}) {
    const Tokens prompt{draw(0, 2), draw(0, 2)};
    const int64_t suppressed = draw(0, 2);
    const int64_t size = draw(2, 3);
    const auto allowed = [&](const Tokens& generated) {
      auto log_probs = after(prompt)(generated);
      auto tokens = prompt;
      tokens.insert(tokens.end(), generated.begin(), generated.end());
      for (const auto token : repeated_ngram_tokens(tokens, size))
        log_probs[static_cast<std::size_t>(token)] = -INFINITY;
      log_probs[static_cast<std::size_t>(suppressed)] = -INFINITY;
      if (generated.size() < 3) log_probs[kEos] = -INFINITY;
      return log_probs;
    };
    EXPECT_EQ(generate(model, prompt,
                       {.max_new_tokens = 5,
                        .min_new_tokens = 3,
                        .eos_tokens = {kEos},
                        .sampling = {.no_repeat_ngram_size = size, .suppress_tokens = {suppressed}},
                        .num_beams = num_beams})
                  .tokens,
              plain_beam_search(static_cast<std::size_t>(num_beams), 5, 1.0, allowed))
        << "num_beams " << num_beams << ", suppressed " << suppressed << ", n-grams of " << size;
  }
}

struct BeamSearchOfSeq2Seq : FreshSeed, testing::Test {
  const torch::NoGradGuard no_grad;
  Seq2Seq model = with_large_weights(
      Seq2Seq(Seq2SeqConfig{.source_vocab_size = 9,
                            .target_vocab_size = kNumTokens,
                            .max_seq_len = 6,
                            .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}}));
};

TEST_F(BeamSearchOfSeq2Seq, EqualsThePlainImplementation) {
  for (const int64_t num_beams : {2, 4, 500}) {
    for (const double length_penalty : {0.0, 1.0}) {
      std::vector<Tokens> sources;
      for (int64_t length = 1; length <= 4; ++length) {
        sources.emplace_back();
        for (int64_t i = 0; i < length; ++i) sources.back().push_back(draw(0, 8));
      }
      const auto found = generate_batch(
          model, sources, {.bos_token = 0, .eos_token = kEos},
          {.max_new_tokens = 5, .num_beams = num_beams, .length_penalty = length_penalty});
      for (std::size_t b = 0; b < sources.size(); ++b) {
        const auto next = [&](const Tokens& generated) {
          Tokens target{0};
          target.insert(target.end(), generated.begin(), generated.end());
          return last_log_probs(model->forward(torch::tensor(sources[b]), torch::tensor(target)));
        };
        EXPECT_EQ(found[b].tokens,
                  plain_beam_search(static_cast<std::size_t>(num_beams), 5, length_penalty, next))
            << b;
      }
    }
  }
}

}  // namespace
}  // namespace attend
