// Benchmarks of generation and of decoding with a KV cache, on the CPU.
#include "attend/models/generation.h"

#include <benchmark/benchmark.h>

namespace attend {
namespace {

StackConfig small_stack(int64_t sliding_window) {
  return {.num_layers = 4,
          .num_heads = 4,
          .embed_dim = 128,
          .positions = PositionScheme::rotary,
          .sliding_window = sliding_window};
}

LanguageModel language_model(int64_t max_seq_len, int64_t sliding_window) {
  LanguageModel model(LanguageModelConfig{
      .vocab_size = 1000, .max_seq_len = max_seq_len, .stack = small_stack(sliding_window)});
  model->eval();
  return model;
}

void set_time_per_token(benchmark::State& state, int64_t tokens) {
  state.counters["per_token"] = benchmark::Counter(
      static_cast<double>(tokens),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Generation after a prompt of `state.range(0)` tokens, which fills the context. The sliding
/// window has `state.range(1)` tokens; 0 = no window.
void GenerateBeyondMaxSeqLen(benchmark::State& state) {
  auto model = language_model(state.range(0), state.range(1));
  const std::vector<int64_t> prompt(static_cast<std::size_t>(state.range(0)), 3);
  constexpr int64_t kTokens = 100;
  for (auto _ : state) generate(model, prompt, {.max_new_tokens = kTokens, .seed = 1});
  set_time_per_token(state, kTokens);
}
BENCHMARK(GenerateBeyondMaxSeqLen)
    ->Args({256, 32})
    ->Args({256, 0})
    ->Args({1024, 32})
    ->Args({1024, 0})
    ->Unit(benchmark::kMillisecond);

/// Generation of a sequence that fits into the context. The sliding window has `state.range(0)`
/// tokens; 0 = no window.
void Generate(benchmark::State& state) {
  auto model = language_model(256, state.range(0));
  constexpr int64_t kTokens = 200;
  for (auto _ : state) generate(model, {1}, {.max_new_tokens = kTokens, .seed = 1});
  set_time_per_token(state, kTokens);
}
BENCHMARK(Generate)->Arg(32)->Arg(0)->Unit(benchmark::kMillisecond);

/// Generation for a batch of `state.range(0)` prompts.
void GenerateBatch(benchmark::State& state) {
  auto model = language_model(256, 0);
  std::vector<std::vector<int64_t>> prompts;
  for (int64_t b = 0; b < state.range(0); ++b) {
    prompts.emplace_back(static_cast<std::size_t>(b % 7 + 1), 3);
  }
  constexpr int64_t kTokens = 100;
  for (auto _ : state) generate_batch(model, prompts, {.max_new_tokens = kTokens, .seed = 1});
  set_time_per_token(state, kTokens * state.range(0));
}
BENCHMARK(GenerateBatch)->Arg(1)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);

/// Two callers generate with one model at the same time, each with `state.range(0)` threads of
/// LibTorch.
void GenerateAtOnce(benchmark::State& state) {
  static auto model = language_model(256, 0);
  constexpr int64_t kTokens = 200;
  const auto threads = torch::get_num_threads();
  torch::set_num_threads(static_cast<int>(state.range(0)));
  for (auto _ : state) generate(model, {1}, {.max_new_tokens = kTokens, .seed = 1});
  torch::set_num_threads(threads);
  set_time_per_token(state, kTokens);
}
BENCHMARK(GenerateAtOnce)->Arg(1)->Arg(2)->Threads(2)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Prefill of 1,024 tokens with a vocabulary of 32,000. Computes the logits of the last
/// `state.range(0)` positions; 0 = all.
void Prefill(benchmark::State& state) {
  LanguageModel model(LanguageModelConfig{
      .vocab_size = 32000, .max_seq_len = 1024, .stack = small_stack(/*sliding_window=*/0)});
  model->eval();
  const torch::NoGradGuard no_grad;
  const auto tokens = torch::ones({1, 1024}, torch::kLong);
  auto cache = model->make_cache(1);
  for (auto _ : state) {
    cache.clear();
    benchmark::DoNotOptimize(model->step(tokens, cache, {}, state.range(0)));
  }
}
BENCHMARK(Prefill)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

/// One decoding step of a Seq2Seq with a source of `state.range(0)` tokens.
void Seq2SeqStep(benchmark::State& state) {
  Seq2Seq model(Seq2SeqConfig{.source_vocab_size = 1000,
                              .target_vocab_size = 1000,
                              .max_seq_len = 1024,
                              .stack = {.num_layers = 6, .num_heads = 8, .embed_dim = 512}});
  model->eval();
  const torch::NoGradGuard no_grad;
  const auto memory = model->encode(torch::ones({1, state.range(0)}, torch::kLong));
  auto cache = model->make_cache(1);
  const auto token = torch::ones({1, 1}, torch::kLong);
  for (auto _ : state) {
    if (cache.lengths().front() == 64) cache.truncate({1});
    benchmark::DoNotOptimize(model->step(token, memory, cache));
  }
}
BENCHMARK(Seq2SeqStep)->RangeMultiplier(8)->Range(8, 1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace attend
