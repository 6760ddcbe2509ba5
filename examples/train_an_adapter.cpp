// Trains low-rank adapters of a language model whose weights are frozen, and merges them into the
// weights. The model has learned to count up; the adapters teach it to count down.
#include "attend/models/language_model.h"
#include "attend/nn/lora.h"
#include "attend/nn/parameter_count.h"
#include "attend/nn/trainable_parameters.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

namespace {

constexpr int64_t kVocabulary = 10;

/// Returns sequences (B, 8) that go up or down by 1, modulo the size of the vocabulary.
torch::Tensor draw_sequences(int64_t batch_size, int64_t step) {
  const auto first = torch::randint(kVocabulary, {batch_size, 1});
  return (first + step * torch::arange(8)).remainder(kVocabulary);
}

torch::Tensor loss_of(attend::LanguageModel& model, const torch::Tensor& sequences) {
  const auto logits = model(sequences.slice(1, 0, -1));  // (B, 7, V)
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1),
                                              sequences.slice(1, 1).flatten());
}

/// Trains the parameters that require a gradient, and returns the last loss.
double train(attend::LanguageModel& model, int64_t step) {
  std::vector<torch::Tensor> parameters;
  for (const auto& each : attend::trainable_parameters(model)) parameters.push_back(each.tensor);
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-2));
  double last = 0.0;
  for (int i = 0; i < 120; ++i) {
    optimizer.zero_grad();
    const auto loss = loss_of(model, draw_sequences(32, step));
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  attend::LanguageModel model(attend::LanguageModelConfig{
      .vocab_size = kVocabulary, .max_seq_len = 8, .stack = {.num_layers = 1, .embed_dim = 32}});
  fmt::print("count up:   loss {:.2f}\n", train(model, 1));

  attend::add_lora(model, {.rank = 4, .alpha = 8, .targets = {"attention", "feed_forward"}});
  int64_t trained = 0;
  for (const auto& each : attend::trainable_parameters(model)) trained += each.tensor.numel();
  fmt::print("{} of {} parameters are trained\n", trained, attend::parameter_count(model));
  fmt::print("count down: loss {:.2f}\n", train(model, -1));

  const torch::NoGradGuard no_grad;
  model->eval();
  const auto sequences = draw_sequences(100, -1);
  const auto adapted = model(sequences);
  attend::merge_and_remove_lora(model);
  const auto difference = (model(sequences) - adapted).abs().max().item<double>();
  const auto loss = loss_of(model, sequences).item<double>();
  fmt::print("merged: loss {:.2f}, {} parameters, {}\n", loss, attend::parameter_count(model),
             difference < 1e-3 && loss < 1 ? "the same outputs" : "other outputs");
}
