#include "attend/train/optimizer.h"
#include "support/rounding.h"
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
  AdamW optimizer(trainable_parameters(*ours), config);
  Tensors inputs{ours->weight.detach().clone(), ours->bias.detach().clone()};
  for (int step = 0; step < 50; ++step) {
    inputs.push_back(torch::randn({4, 5}));
    optimizer.zero_grad();
    ours(inputs.back()).pow(4).sum().backward();
    set_lr(optimizer, 0.01);
    optimizer.step();
  }
  const auto options = [&](double weight_decay) {
    auto made = std::make_unique<torch::optim::AdamWOptions>(0.01);
    made->betas({config.beta1, config.beta2}).weight_decay(weight_decay);
    return made;
  };
  const auto theirs = [&](const Tensors& in) -> Tensors {
    const auto weight = in[0].clone().requires_grad_(), bias = in[1].clone().requires_grad_();
    torch::optim::AdamW reference(
        {{{weight}, options(config.weight_decay)}, {{bias}, options(0.0)}},
        torch::optim::AdamWOptions(0.01));
    for (std::size_t i = 2; i < in.size(); ++i) {
      reference.zero_grad();
      torch::linear(in[i], weight, bias).pow(4).sum().backward();
      reference.step();
    }
    return {weight, bias};
  };
  EXPECT_TRUE(equals_in_float64({ours->weight, ours->bias}, inputs, theirs));
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
