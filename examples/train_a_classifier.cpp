// Trains a SequenceClassifier with a mixture of experts. Class 1: sequences with more ones than
// twos; class 0: all other sequences. Uses a padding mask, the auxiliary loss of the router, and
// parameter groups for weight decay.
#include "attend/models/sequence_classifier.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/nn/parameter_groups.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

namespace {

constexpr int64_t kPad = 0;

struct Examples {
  torch::Tensor tokens;  // (B, T)
  torch::Tensor labels;  // (B)
};

Examples draw_examples(int64_t batch_size) {
  const auto lengths = torch::randint(3, 13, {batch_size, 1});
  const auto padding = torch::arange(12) >= lengths;
  const auto tokens = torch::randint(1, 4, {batch_size, 12}).masked_fill(padding, kPad);
  return {tokens, tokens.eq(1).sum(1).gt(tokens.eq(2).sum(1)).to(torch::kLong)};
}

}  // namespace

int main() {
  torch::manual_seed(0);
  attend::SequenceClassifier model(
      attend::SequenceClassifierConfig{.vocab_size = 4,
                                       .num_classes = 2,
                                       .max_seq_len = 12,
                                       .stack = {.num_layers = 1,
                                                 .embed_dim = 32,
                                                 .num_experts = 4,
                                                 .positions = attend::PositionScheme::none}});
  const auto groups = attend::parameter_groups(*model);
  torch::optim::AdamW optimizer(
      {torch::optim::OptimizerParamGroup(groups.decay, std::make_unique<torch::optim::AdamWOptions>(
                                                           torch::optim::AdamWOptions(3e-3))),
       torch::optim::OptimizerParamGroup(groups.no_decay,
                                         std::make_unique<torch::optim::AdamWOptions>(
                                             torch::optim::AdamWOptions(3e-3).weight_decay(0)))});

  for (int step = 0; step < 200; ++step) {
    const auto batch = draw_examples(64);
    optimizer.zero_grad();
    const auto key_mask = batch.tokens.ne(kPad);                 // (B, T), true = token
    const auto logits = model->forward(batch.tokens, key_mask);  // (B, 2)
    const auto loss = torch::nn::functional::cross_entropy(logits, batch.labels);
    (loss + 0.01 * attend::router_aux_loss(*model)).backward();
    optimizer.step();
  }

  model->eval();
  const torch::NoGradGuard no_grad;
  const auto test = draw_examples(1000);
  const auto correct = model->forward(test.tokens, test.tokens.ne(kPad)).argmax(1).eq(test.labels);
  const double accuracy = correct.to(torch::kDouble).mean().item<double>();
  fmt::print("accuracy: {:.1f}% of 1000 sequences\n", 100 * accuracy);
  fmt::print("{}\n", accuracy > 0.9 ? "learned" : "not learned");
}
