#include "attend/train/regression_metrics.h"

#include <cmath>

namespace attend::train {

torch::Tensor regression_moments(const torch::Tensor& predicted, const torch::Tensor& targets) {
  const auto p = predicted.to(torch::kCPU, torch::kDouble);
  const auto y = targets.to(torch::kCPU, torch::kDouble);
  return torch::stack({torch::full({}, p.numel(), torch::kDouble), (p - y).abs().sum(),
                       (p - y).square().sum(), p.sum(), y.sum(), p.square().sum(), y.square().sum(),
                       (p * y).sum()});  // (8)
}

RegressionMetrics regression_metrics(const torch::Tensor& moments) {
  constexpr double kConstant = 1e-12;  // of the sum of squares: more than rounding errors
  const auto* m = moments.const_data_ptr<double>();
  const double n = m[0];
  // Sums of squared deviations from the means.
  const double pp = m[5] - m[3] * m[3] / n;
  const double yy = m[6] - m[4] * m[4] / n;
  const double py = m[7] - m[3] * m[4] / n;
  const bool targets_vary = yy > kConstant * m[6];
  const bool both_vary = targets_vary && pp > kConstant * m[5];
  return {.mae = m[1] / n,
          .mse = m[2] / n,
          .r2 = targets_vary ? 1.0 - m[2] / yy : NAN,
          .pearson = both_vary ? py / std::sqrt(pp * yy) : NAN};
}

}  // namespace attend::train
