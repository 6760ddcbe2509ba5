// Trains a small model to repeat three digits, and uses an AttentionRecorder to show the attention
// weights with which each head finds the digit to copy.
#include "attend/models/language_model.h"
#include "attend/ops/attention_recorder.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

namespace {

constexpr int64_t kDigits = 3;

/// Returns sequences of random digits, each followed by a copy: 3 1 4 3 1 4. Shape (B, 2 *
/// kDigits).
torch::Tensor repeated_digits(int64_t batch_size) {
  return torch::randint(10, {batch_size, kDigits}, torch::kLong).repeat({1, 2});
}

/// Trains the model to predict the copies.
void train(attend::LanguageModel& model) {
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
  for (int step = 0; step < 400; ++step) {
    const auto tokens = repeated_digits(64);
    const auto logits = model(tokens.slice(1, 0, -1));               // (B, T, V)
    const auto copies = logits.slice(1, kDigits - 1).flatten(0, 1);  // (B * kDigits, V)
    const auto loss =
        torch::nn::functional::cross_entropy(copies, tokens.slice(1, kDigits).flatten());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
}

}  // namespace

int main() {
  torch::manual_seed(0);
  attend::LanguageModel model(
      attend::LanguageModelConfig{.vocab_size = 10,
                                  .max_seq_len = 2 * kDigits,
                                  .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 32}});
  train(model);
  model->eval();
  const torch::NoGradGuard no_grad;

  const auto tokens = torch::tensor({3, 1, 4, 3, 1}, torch::kLong);  // (T)
  attend::AttentionRecorder recorder;
  const auto predicted = model(tokens).argmax(-1);  // (T)

  const auto weights = recorder.weights()[0];  // (H, T, T)
  for (int64_t head = 0; head < weights.size(0); ++head) {
    fmt::print("layer 1, head {}: attention weights, a row per query, a column per key\n        ",
               head + 1);
    for (int64_t s = 0; s < tokens.size(0); ++s) fmt::print("{:6}", tokens[s].item<int64_t>());
    fmt::print("\n");
    for (int64_t t = 0; t < tokens.size(0); ++t) {
      fmt::print("{:6}  ", tokens[t].item<int64_t>());
      for (int64_t s = 0; s <= t; ++s) fmt::print("{:6.2f}", weights[head][t][s].item<double>());
      if (t + 1 >= kDigits) {
        fmt::print("{:{}}  next digit: {}", "", 6 * (tokens.size(0) - 1 - t),
                   predicted[t].item<int64_t>());
      }
      fmt::print("\n");
    }
  }
}
