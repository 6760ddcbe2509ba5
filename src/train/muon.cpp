#include "attend/train/muon.h"

#include "ops/cpu_features.h"

#include <algorithm>
#include <cmath>

namespace attend::train {
namespace {

// An iteration of `newton_schulz` maps each singular value s to
// kLinear * s + kCubic * s^3 + kQuintic * s^5. Jordan et al. chose these coefficients for fast
// growth of small singular values, not for convergence to exactly 1.
constexpr double kLinear = 3.4445;
constexpr double kCubic = -4.7750;
constexpr double kQuintic = 2.0315;
constexpr int kIterations = 5;
constexpr double kMinNorm = 1e-7;  // avoids division by zero
constexpr double kAdamWRms = 0.2;  // typical root mean square of AdamW's updates, divided by lr

/// Returns the dtype in which the matrix products of `newton_schulz` for `x` are computed.
torch::Dtype product_dtype(const torch::Tensor& x) {
  // On a CPU without AVX-512, LibTorch computes products of bfloat16 in a plain loop on one thread,
  // which is up to 90 times slower than float32. Only for tiny matrices, the casts take longer.
  constexpr int64_t kTiny = 16 * 16 * 16;
  const bool is_tiny = x.size(0) * x.size(0) * x.size(1) <= kTiny;
  return x.is_cpu() && !is_tiny && !has_avx512() ? torch::kFloat : torch::kBFloat16;
}

}  // namespace

torch::Tensor newton_schulz(const torch::Tensor& matrix) {
  const bool is_tall = matrix.size(0) > matrix.size(1);
  auto x = matrix.to(torch::kBFloat16);
  if (is_tall) x = x.t();  // x x^T then has fewer elements than x^T x
  x = x / x.norm().clamp_min(kMinNorm);
  const auto dtype = product_dtype(x);
  // Also products in float32 are rounded to bfloat16.
  const auto rounded = [&](const torch::Tensor& y) { return y.to(torch::kBFloat16).to(dtype); };
  x = x.to(dtype);
  for (int i = 0; i < kIterations; ++i) {
    const auto gram = rounded(x.mm(x.t()));
    const auto polynomial = rounded(torch::addmm(gram, gram, gram, kCubic, kQuintic));
    x = rounded(torch::addmm(x, polynomial, x, kLinear));
  }
  return (is_tall ? x.t() : x).to(torch::kBFloat16);
}

Muon::Muon(const std::vector<TrainableParameter>& matrices, const TrainingConfig& config)
    : Optimizer(matrices, config.lr),
      momentum_(config.momentum),
      weight_decay_(config.weight_decay) {
  for (const auto& [name, parameter, role] : matrices) {
    TORCH_CHECK_VALUE(parameter.dim() == 2, "Muon: expected matrices, found ", name, " ",
                      parameter.sizes());
    slots_.push_back({name, parameter, role, [](const torch::Tensor& matrix) {
                        return std::map<std::string, torch::Tensor>{
                            {"momentum_buffer", torch::zeros_like(matrix)}};
                      }});
  }
}

void Muon::update(double lr) {
  for (auto& matrix : slots_) {
    if (matrix.is_updated()) update(matrix, lr);
  }
}

void Muon::update(Slot& matrix, double lr) const {
  auto& parameter = matrix.parameter;
  auto& momentum = matrix.ensure_state().at("momentum_buffer");
  const auto& gradient = parameter.grad();
  momentum.lerp_(gradient, 1.0 - momentum_);
  const auto update = newton_schulz(gradient.lerp(momentum, momentum_));  // Nesterov momentum
  const auto max_side = static_cast<double>(std::max(parameter.size(0), parameter.size(1)));
  const double scale = lr * (kAdamWRms * std::sqrt(max_side));
  parameter.mul_(1.0 - lr * weight_decay_);
  parameter.add_(update, -scale);
}

}  // namespace attend::train
