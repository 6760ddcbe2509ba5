// Several threads call the same model in eval mode. The CMake preset tsan also runs these
// tests.
#include "attend/models/generation.h"
#include "attend/models/sequence_classifier.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/stack_configs.h"

#include <thread>

namespace attend {
namespace {

constexpr std::size_t kThreads = 4;

/// Calls `work(i)` for each i below kThreads, in separate threads at the same time.
template <typename Work>
void in_threads(const Work& work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back([&work, i] { work(i); });
  for (auto& thread : threads) thread.join();
}

class ModelConcurrency : public testing::TestWithParam<NamedStack> {
 protected:
  ModelConcurrency() { torch::manual_seed(1); }

  StackConfig stack() const {
    auto config = GetParam().config;
    config.dropout = 0.5;
    return config;
  }
  const torch::NoGradGuard no_grad_;
};

TEST_P(ModelConcurrency, GenerateEqualsASingleThread) {
  LanguageModel model(LanguageModelConfig{.vocab_size = 11, .max_seq_len = 6, .stack = stack()});
  model->eval();
  const GenerationOptions options{.max_new_tokens = 9, .seed = 3};
  const auto alone = generate(model, {1, 2}, options).tokens;
  std::vector<std::vector<int64_t>> results(kThreads);
  in_threads([&](std::size_t i) { results[i] = generate(model, {1, 2}, options).tokens; });
  for (const auto& tokens : results) EXPECT_EQ(tokens, alone);
  for (const auto& module : model->modules()) EXPECT_FALSE(module->is_training());
}

TEST_P(ModelConcurrency, ForwardAndStepsEqualASingleThread) {
  LanguageModel model(LanguageModelConfig{.vocab_size = 11, .max_seq_len = 6, .stack = stack()});
  model->eval();
  const auto tokens = torch::randint(0, 11, {2, 6}, torch::kLong);
  const auto alone = model(tokens);
  in_threads([&](std::size_t) {
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(close(model->forward(tokens), alone, 1e-5));
    auto cache = model->make_cache(2);
    EXPECT_TRUE(close(model->step(tokens, cache), alone, 1e-4));
  });
}

TEST_P(ModelConcurrency, ClassifierEqualsASingleThread) {
  SequenceClassifier model(SequenceClassifierConfig{
      .vocab_size = 11, .num_classes = 3, .max_seq_len = 6, .stack = stack()});
  model->eval();
  const auto tokens = torch::randint(0, 11, {2, 6}, torch::kLong);
  const auto alone = model->forward(tokens);
  in_threads([&](std::size_t) {
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(close(model->forward(tokens), alone, 1e-5));
  });
}

TEST_P(ModelConcurrency, Seq2SeqGenerateEqualsASingleThread) {
  Seq2Seq model(Seq2SeqConfig{
      .source_vocab_size = 11, .target_vocab_size = 7, .max_seq_len = 6, .stack = stack()});
  model->eval();
  const GenerationOptions options{.max_new_tokens = 6, .num_beams = 2};
  const auto alone = generate(model, {1, 2, 3}, {.bos_token = 0, .eos_token = 1}, options).tokens;
  in_threads([&](std::size_t) {
    EXPECT_EQ(generate(model, {1, 2, 3}, {.bos_token = 0, .eos_token = 1}, options).tokens, alone);
  });
}

INSTANTIATE_TEST_SUITE_P(EachStack, ModelConcurrency, testing::ValuesIn(each_stack()),
                         NameOfStack());

}  // namespace
}  // namespace attend
