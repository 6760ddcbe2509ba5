#include "attend/train/adamw.h"

#include "support/close.h"
#include "support/seed.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

namespace attend::train {
namespace {

TEST(AdamW, EqualsTorchAdamWOver50Steps) {
  seed_afresh();
  TrainingConfig config;
  config.weight_decay = 0.3;
  torch::nn::Linear ours(5, 3);
  auto theirs = std::dynamic_pointer_cast<torch::nn::LinearImpl>(ours->clone());
  AdamW optimizer(trainable_parameters(*ours), config);
  const auto options = [&](double weight_decay) {
    auto made = std::make_unique<torch::optim::AdamWOptions>(0.01);
    made->betas({config.beta1, config.beta2}).weight_decay(weight_decay);
    return made;
  };
  torch::optim::AdamW reference(
      {{{theirs->weight}, options(config.weight_decay)}, {{theirs->bias}, options(0.0)}},
      torch::optim::AdamWOptions(0.01));
  for (int step = 0; step < 50; ++step) {
    const auto x = torch::randn({4, 5});
    optimizer.zero_grad();
    reference.zero_grad();
    ours(x).pow(4).sum().backward();
    theirs->forward(x).pow(4).sum().backward();
    set_lr(optimizer, 0.01);
    optimizer.step();
    reference.step();
  }
  EXPECT_TRUE(close(ours->weight, theirs->weight, 1e-5));
  EXPECT_TRUE(close(ours->bias, theirs->bias, 1e-5));
}

TEST(AdamW, DoesNotChangeParametersWithoutGradient) {
  torch::nn::Linear linear(2, 2);
  const auto weight = linear->weight.clone();
  AdamW optimizer(trainable_parameters(*linear), TrainingConfig{});
  set_lr(optimizer, 0.1);
  optimizer.step();
  EXPECT_TRUE(linear->weight.equal(weight));
}

}  // namespace
}  // namespace attend::train
