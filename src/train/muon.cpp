#include "attend/train/muon.h"

#include "ops/cpu_features.h"
#include "ops/in_parallel.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>

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
/// Matrices of one shape with at most this number of elements are orthogonalized together, because
/// calls take longer than their products.
constexpr int64_t kSmall = 64 * 1024;

/// Returns the dtype in which the matrix products of `newton_schulz` for `x` are computed.
torch::Dtype product_dtype(const torch::Tensor& x) {
  // On a CPU without AVX-512, LibTorch computes products of bfloat16 in a plain loop on one thread,
  // which is up to 90 times slower than float32. Only for tiny matrices, the casts take longer.
  constexpr int64_t kTiny = 16 * 16 * 16;
  const bool is_tiny = x.size(-2) * x.size(-2) * x.size(-1) <= kTiny;
  return x.is_cpu() && !is_tiny && !has_avx512() ? torch::kFloat : torch::kBFloat16;
}

}  // namespace

torch::Tensor newton_schulz(const torch::Tensor& matrices) {
  const bool is_tall = matrices.size(-2) > matrices.size(-1);
  auto x = matrices.to(torch::kBFloat16);
  if (is_tall) x = x.mT();  // x x^T then has fewer elements than x^T x
  x = x / x.norm(2, {-2, -1}, /*keepdim=*/true).clamp_min(kMinNorm);
  const auto dtype = product_dtype(x);
  // Also products in float32 are rounded to bfloat16.
  const auto rounded = [&](const torch::Tensor& y) { return y.to(torch::kBFloat16).to(dtype); };
  x = x.to(dtype);
  // factor * y + product_factor * a b
  const auto add_product = [](const torch::Tensor& y, double factor, const torch::Tensor& a,
                              const torch::Tensor& b, double product_factor) {
    return y.dim() == 2 ? torch::addmm(y, a, b, factor, product_factor)
                        : torch::baddbmm(y, a, b, factor, product_factor);
  };
  for (int i = 0; i < kIterations; ++i) {
    const auto gram = rounded(x.matmul(x.mT()));
    const auto polynomial = rounded(add_product(gram, kCubic, gram, gram, kQuintic));
    x = rounded(add_product(x, kLinear, polynomial, x, 1.0));
  }
  return (is_tall ? x.mT() : x).to(torch::kBFloat16);
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
  std::map<std::vector<int64_t>, std::vector<Slot*>> small;  // by shape
  std::vector<Slot*> large;                                  // on a CPU
  // Also those that other processes of a `ShardedOptimizer` update, so that all choose alike.
  int64_t num_large = 0;
  for (auto& matrix : slots_) {
    const auto& parameter = matrix.parameter;
    const bool is_small = parameter.numel() <= kSmall;
    if (!is_small && parameter.is_cpu() && parameter.requires_grad()) ++num_large;
    if (!matrix.has_grad()) continue;
    if (is_small) {
      small[parameter.sizes().vec()].push_back(&matrix);
    } else if (parameter.is_cpu()) {
      large.push_back(&matrix);
    } else {
      update({&matrix}, lr);
    }
  }
  for (const auto& [shape, matrices] : small) update(matrices, lr);
  if (num_large < at::get_num_threads()) {
    for (auto* matrix : large) update({matrix}, lr);
    return;
  }
  // A thread per matrix is faster than all threads in each product. The longest updates come first.
  std::ranges::stable_sort(large, std::greater(),
                           [](const Slot* matrix) { return matrix->parameter.numel(); });
  const at::ThreadLocalState state;  // such as GradMode
  std::atomic<std::size_t> next = 0;
  in_parallel(at::get_num_threads(), /*grain=*/1, [&](int64_t /*begin*/, int64_t /*end*/) {
    const at::ThreadLocalStateGuard guard(state);
    for (auto i = next++; i < large.size(); i = next++) update({large[i]}, lr);
  });
}

void Muon::update(const std::vector<Slot*>& matrices, double lr) const {
  std::vector<torch::Tensor> directions;  // Nesterov momentum
  for (auto* matrix : matrices) {
    auto& momentum = matrix->ensure_state().at("momentum_buffer");
    const auto& gradient = matrix->parameter.grad();
    momentum.lerp_(gradient, 1.0 - momentum_);
    directions.push_back(gradient.lerp(momentum, momentum_).to(torch::kBFloat16));
  }
  const auto updates = directions.size() == 1 ? newton_schulz(directions.front()).unsqueeze(0)
                                              : newton_schulz(torch::stack(directions));
  const auto max_side = static_cast<double>(std::max(updates.size(-2), updates.size(-1)));
  const double scale = lr * (kAdamWRms * std::sqrt(max_side));
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    auto& parameter = matrices[i]->parameter;
    parameter.mul_(1.0 - lr * weight_decay_);
    parameter.add_(updates[static_cast<int64_t>(i)], -scale);
  }
}

}  // namespace attend::train
