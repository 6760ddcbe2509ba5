#include "support/gradient.h"

#include "support/close.h"

#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <limits>

namespace attend {
namespace {

constexpr double kStep = 4e-6;

/// Succeeds if `gradient` equals the central differences of `loss` at `leaf`. The bound is
/// measured: rounding errors of the loss change a difference with half the step, and the error of
/// the difference itself one with twice the step.
testing::AssertionResult equals_differences(const torch::Tensor& gradient,
                                            const torch::Tensor& leaf,
                                            const std::function<double()>& loss, double rounding) {
  const torch::NoGradGuard no_grad;
  auto flat = leaf.view(-1);  // requires contiguous leaves
  const auto differences = [&](double step) {
    auto result = torch::zeros(flat.sizes(), torch::kDouble);
    for (int64_t i = 0; i < flat.numel(); ++i) {
      const auto original = flat[i].item<double>();
      flat[i] = original + step;
      const double above = loss();
      flat[i] = original - step;
      const double below = loss();
      flat[i] = original;
      result[i] = (above - below) / (2 * step);
    }
    return result;
  };
  const auto expected = differences(kStep);
  const auto fine = (differences(kStep / 2) - expected).abs();
  const auto coarse = (differences(2 * kStep) - expected).abs();
  const double measured = flat.numel() == 0 ? 0.0 : torch::max(fine, coarse).max().item<double>();
  return close(gradient.reshape(-1), expected, 2 * measured + rounding / kStep);
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
  // Some tens of roundings of each term of the loss and of the weights.
  const double rounding =
      32 * std::numeric_limits<double>::epsilon() *
      ((output.detach() * weights).abs() + kStep * weights.abs()).sum().item<double>();
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto found = gradients[i].defined() ? gradients[i] : torch::zeros_like(leaves[i]);
    const auto result = equals_differences(found, leaves[i], loss, rounding);
    if (!result) return testing::AssertionFailure() << "leaf " << i << ": " << result.message();
  }
  return testing::AssertionSuccess();
}

torch::Tensor forward_derivative(const std::function<torch::Tensor(const torch::Tensor&)>& function,
                                 const torch::Tensor& x, const torch::Tensor& tangent) {
  const auto level = torch::autograd::ForwardADLevel::get_next_idx();
  const auto y = function(at::_make_dual(x, tangent, static_cast<int64_t>(level)));
  const auto derivative = std::get<1>(at::_unpack_dual(y, static_cast<int64_t>(level)));
  torch::autograd::ForwardADLevel::release_idx(level);
  return derivative;
}

}  // namespace attend
