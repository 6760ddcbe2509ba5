#include "attend/train/grad_scaler.h"

#include "attend/input_error.h"

#include <ATen/ops/_foreach_mul.h>
#include <fmt/format.h>

#include <cmath>

namespace attend::train {
namespace {

constexpr float kGrowthFactor = 2.0F;
constexpr float kBackoffFactor = 0.5F;
constexpr int64_t kGrowthInterval = 2000;

constexpr const char* kFactor = "factor";
constexpr const char* kGrowthTracker = "growth_tracker";

}  // namespace

torch::Tensor GradScaler::scale(const torch::Tensor& loss) const {
  const bool is_reduced = c10::isReducedFloatingType(loss.scalar_type());
  return (is_reduced ? loss.to(torch::kFloat) : loss) * factor_;
}

void GradScaler::unscale(const std::vector<torch::Tensor>& gradients) const {
  const torch::NoGradGuard no_grad;
  if (!gradients.empty()) at::_foreach_mul_(gradients, 1.0 / static_cast<double>(factor_));
}

void GradScaler::update(bool finite) {
  if (!finite) {
    factor_ *= kBackoffFactor;
    growth_tracker_ = 0;
  } else if (++growth_tracker_ == kGrowthInterval) {
    if (std::isfinite(factor_ * kGrowthFactor)) factor_ *= kGrowthFactor;
    growth_tracker_ = 0;
  }
}

std::map<std::string, torch::Tensor> GradScaler::state() const {
  return {{kFactor, torch::tensor(factor_)}, {kGrowthTracker, torch::tensor(growth_tracker_)}};
}

void GradScaler::load_state(const std::map<std::string, torch::Tensor>& state) {
  const auto find = [&](const char* name, torch::ScalarType dtype) {
    const auto entry = state.find(name);
    if (entry == state.end() || entry->second.scalar_type() != dtype || entry->second.numel() != 1)
      throw InputError(fmt::format("the state of the loss scaling has no valid '{}'", name));
    return entry->second;
  };
  const auto factor = find(kFactor, torch::kFloat).item<float>();
  const auto tracker = find(kGrowthTracker, torch::kLong).item<int64_t>();
  if (!(factor > 0) || !std::isfinite(factor) || tracker < 0 || tracker >= kGrowthInterval) {
    throw InputError(
        fmt::format("the state of the loss scaling has the factor {} and the growth_tracker {}, "
                    "expected a positive number and 0 to {}",
                    factor, tracker, kGrowthInterval - 1));
  }
  factor_ = factor;
  growth_tracker_ = tracker;
}

}  // namespace attend::train
