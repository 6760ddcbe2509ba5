// Uses an AttentionRecorder to record the attention weights of every layer of a model.
#include "attend/models/language_model.h"
#include "attend/ops/attention_recorder.h"

#include <fmt/format.h>

int main() {
  torch::manual_seed(0);
  attend::LanguageModel model(
      attend::LanguageModelConfig{.vocab_size = 10,
                                  .max_seq_len = 8,
                                  .stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 16}});
  model->eval();
  const torch::NoGradGuard no_grad;

  attend::AttentionRecorder recorder;
  model(torch::tensor({{3, 1, 4, 1, 5}}));  // (B, T)

  for (std::size_t layer = 0; layer < recorder.weights().size(); ++layer) {
    const auto weights = recorder.weights()[layer][0];  // (H, T, T)
    for (int64_t head = 0; head < weights.size(0); ++head) {
      fmt::print("layer {}, head {}: attention weights, one row per query\n", layer + 1, head + 1);
      for (int64_t t = 0; t < weights.size(1); ++t) {
        for (int64_t s = 0; s < weights.size(2); ++s) {
          fmt::print("  {:.2f}", weights[head][t][s].item<double>());
        }
        fmt::print("\n");
      }
    }
  }
}
