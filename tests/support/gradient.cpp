#include "support/gradient.h"

#include "support/close.h"

#include <torch/csrc/autograd/autograd.h>

namespace attend {
namespace {

constexpr double kStep = 1e-6;
constexpr double kTolerance = 1e-7;

torch::Tensor finite_differences(const std::function<double()>& loss, torch::Tensor leaf) {
  const torch::NoGradGuard no_grad;
  auto gradient = torch::zeros(leaf.sizes(), torch::kDouble);
  auto flat_gradient = gradient.view(-1);
  auto flat = leaf.view(-1);  // requires contiguous leaves
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const auto original = flat[i].item<double>();
    flat[i] = original + kStep;
    const double above = loss();
    flat[i] = original - kStep;
    const double below = loss();
    flat[i] = original;
    flat_gradient[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

}  // namespace

testing::AssertionResult gradients_match(const std::function<torch::Tensor()>& function,
                                         const std::vector<torch::Tensor>& leaves) {
  const auto output = function();
  const auto weights = torch::randn_like(output).detach();
  const auto gradients =
      torch::autograd::grad({(output * weights).sum()}, leaves, /*grad_outputs=*/{},
                            /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  const auto loss = [&] { return (function() * weights).sum().item<double>(); };
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto found = gradients[i].defined() ? gradients[i] : torch::zeros_like(leaves[i]);
    const auto result = close(found, finite_differences(loss, leaves[i]), kTolerance);
    if (!result) return testing::AssertionFailure() << "leaf " << i << ": " << result.message();
  }
  return testing::AssertionSuccess();
}

}  // namespace attend
