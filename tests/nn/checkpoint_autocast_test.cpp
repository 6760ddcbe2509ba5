// Tests `checkpoint` under autocast. The backward pass runs after autocast has ended.
#include "attend/nn/checkpoint.h"
#include "support/close.h"
#include "support/seed.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

namespace attend {
namespace {

/// Enables bfloat16 autocast on the CPU for its scope.
class Autocast {
 public:
  Autocast() {
    at::autocast::set_autocast_enabled(torch::kCPU, true);
    at::autocast::set_autocast_dtype(torch::kCPU, torch::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(torch::kCPU, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

struct CheckpointUnderAutocast : FixedSeed, testing::Test {
  torch::Tensor weight = torch::randn({8, 8}).requires_grad_();
  torch::Tensor x = torch::randn({4, 8});

  torch::Tensor linear(const torch::Tensor& h) {
    const auto y = torch::linear(h, weight);  // the torch::nn version bypasses autocast's cache
    seen.push_back(y.scalar_type());
    return y;
  }
  std::vector<torch::ScalarType> seen;
};

TEST_F(CheckpointUnderAutocast, RecomputesInTheSameDtype) {
  torch::Tensor y;
  {
    const Autocast autocast;
    y = checkpoint([this](const torch::Tensor& h) { return linear(h); }, x, {weight});
  }
  y.sum().backward();
  EXPECT_EQ(seen, std::vector<torch::ScalarType>(2, torch::kBFloat16));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(torch::kCPU));
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

TEST_F(CheckpointUnderAutocast, CachesNoParameterForTheNextStep) {
  const auto times_weight = [this](const torch::Tensor& h) { return linear(h); };
  const auto in_autocast = [&] {
    const Autocast autocast;
    return checkpoint(times_weight, x, {weight});
  };
  in_autocast().sum().backward();
  weight.detach().fill_(1.0);
  EXPECT_TRUE(close(in_autocast(), x.sum(-1, true).expand({4, 8}), 0.1));
}

TEST_F(CheckpointUnderAutocast, GradientIncludesUsesOutsideOfCheckpoint) {
  const auto gradient = [&](bool checkpointed) {
    const auto times_weight = [this](const torch::Tensor& h) { return linear(h); };
    torch::Tensor y;
    {
      const Autocast autocast;
      y = checkpointed ? checkpoint(times_weight, x, {weight}) : times_weight(x);
      y = torch::linear(y, weight);
    }
    return torch::autograd::grad({y.sum()}, {weight})[0];
  };
  const auto expected = gradient(false);
  EXPECT_TRUE(close(gradient(true), expected, 0.02 * expected.abs().max().item<double>()));
}

}  // namespace
}  // namespace attend
