#include "support/stripes.h"

#include "attend/train/dataset_objective.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

namespace attend::train {

Stripes::Stripes(uint64_t seed) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
  for (int64_t i = 0; i < 50; ++i) {
    auto image = 0.1 * torch::randn({1, 6, 6}, generator);
    image.select(1 + i % 2, i % 6).add_(1.0);
    images.push_back(image);
  }
}

torch::nn::Sequential make_net() {
  torch::manual_seed(5);
  return torch::nn::Sequential(torch::nn::Conv2d(1, 4, 3), torch::nn::BatchNorm2d(4),
                               torch::nn::Functional(torch::relu), torch::nn::Flatten(),
                               torch::nn::Dropout(0.2), torch::nn::Linear(64, 2));
}

std::shared_ptr<Objective> make_objective(torch::nn::Sequential net, uint64_t seed) {
  return std::make_shared<DatasetObjective<Stripes>>(
      net.ptr(), Stripes(seed), Stripes(2), [net](const auto& images, const auto& labels) mutable {
        return classification_loss(net->forward(images), labels);
      });
}

TrainingConfig stripes_config(int64_t steps) {
  return {.max_steps = steps,
          .batch_size = 8,
          .lr = 1e-2,
          .warmup_steps = 2,
          .eval_every = 5,
          .checkpoint_every = 3,
          .log_every = 2,
          .threads = 1,
          .device = "cpu"};
}

}  // namespace attend::train
