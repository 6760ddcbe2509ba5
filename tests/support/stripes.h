#pragma once

#include "attend/train/objective.h"
#include "attend/train/training_config.h"

#include <torch/data/datasets/base.h>
#include <torch/nn/modules/container/sequential.h>

#include <memory>
#include <optional>
#include <vector>

namespace attend::train {

/// Noisy images (1, 6, 6) with a bright row (class 0) or column (class 1).
struct Stripes : torch::data::datasets::Dataset<Stripes> {
  explicit Stripes(uint64_t seed);
  torch::data::Example<> get(std::size_t index) override {
    return {images[index], torch::tensor(static_cast<int64_t>(index % 2), torch::kLong)};
  }
  std::optional<std::size_t> size() const override { return images.size(); }

  std::vector<torch::Tensor> images;
};

/// Returns a convolution net for `Stripes`, always with the same weights.
torch::nn::Sequential make_net();

/// Returns the objective of training `net` on `Stripes(seed)`.
std::shared_ptr<Objective> make_objective(torch::nn::Sequential net, uint64_t seed = 1);

/// Returns a config with frequent evaluations and checkpoints.
TrainingConfig stripes_config(int64_t steps = 12);

/// Returns a `stop_requested` that is true after `steps` steps.
inline auto stopping_after(int64_t steps) {
  return [steps, done = int64_t{0}]() mutable { return ++done >= steps; };
}

}  // namespace attend::train
