#include "attend/train/muon.h"

#include <algorithm>
#include <cmath>

namespace attend::train {
namespace {

// Each round turns a singular value s into a*s + b*s^3 + c*s^5; Jordan et al. chose a, b and c so
// that small ones grow fast, and not so that any becomes exactly 1.
constexpr double kLinear = 3.4445;
constexpr double kCubic = -4.7750;
constexpr double kQuintic = 2.0315;
constexpr int kRounds = 5;
constexpr double kLeastNorm = 1e-7;        // so that zeros can be divided by it
constexpr double kUsualSizeInAdamW = 0.2;  // root mean square of a step's elements

}  // namespace

torch::Tensor newton_schulz(const torch::Tensor& matrix) {
  const bool is_tall = matrix.size(0) > matrix.size(1);
  auto x = matrix.to(torch::kBFloat16);
  if (is_tall) x = x.t();  // so that x x^T is the smaller one of the two products
  x = x / x.norm().clamp_min(kLeastNorm);
  for (int round = 0; round < kRounds; ++round) {
    const auto gram = x.mm(x.t());
    const auto polynomial = torch::addmm(gram, gram, gram, kCubic, kQuintic);
    x = torch::addmm(x, polynomial, x, kLinear);
  }
  return is_tall ? x.t() : x;
}

Muon::Muon(const std::vector<TrainableParameter>& matrices, const TrainingConfig& config)
    : momentum_(config.momentum), weight_decay_(config.weight_decay) {
  for (const auto& [name, parameter, role] : matrices) {
    TORCH_CHECK_VALUE(parameter.dim() == 2, "Muon takes matrices, found ", name, " ",
                      parameter.sizes());
    matrices_.push_back({name, parameter, torch::zeros_like(parameter)});
  }
}

void Muon::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  for (auto& matrix : matrices_) {
    if (matrix.parameter.grad().defined()) step(matrix, learning_rate);
  }
}

void Muon::step(Matrix& matrix, double learning_rate) const {
  auto& [name, parameter, momentum] = matrix;
  const auto& gradient = parameter.grad();
  momentum.lerp_(gradient, 1.0 - momentum_);
  const auto direction = newton_schulz(gradient.lerp(momentum, momentum_));  // Nesterov's
  // An orthogonal (M, N) has elements of 1 / sqrt(max(M, N)).
  const auto longer_side = static_cast<double>(std::max(parameter.size(0), parameter.size(1)));
  const double length = learning_rate * (kUsualSizeInAdamW * std::sqrt(longer_side));
  parameter.mul_(1.0 - learning_rate * weight_decay_);
  parameter.add_(direction, -length);
}

void Muon::zero_grad() {
  for (auto& matrix : matrices_) matrix.parameter.mutable_grad().reset();
}

std::map<std::string, torch::Tensor> Muon::state() const {
  std::map<std::string, torch::Tensor> state;
  for (const auto& matrix : matrices_)
    state.emplace(matrix.name + "/momentum_buffer", matrix.momentum);
  return state;
}

}  // namespace attend::train
