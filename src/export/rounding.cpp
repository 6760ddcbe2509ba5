#include "export/rounding.h"

#include "export/copy_before_write.h"
#include "export/resize.h"
#include "ops/rng_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>

namespace attend {
namespace {

/// Returns the distance from 1 to the next number, or 0 for dtypes that are not rounded here.
double epsilon_of(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kDouble:
      return std::numeric_limits<double>::epsilon();
    case torch::kFloat:
      return std::numeric_limits<float>::epsilon();
    case torch::kHalf:
      return std::numeric_limits<c10::Half>::epsilon();
    case torch::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::epsilon();
    default:
      return 0.0;
  }
}

/// Returns false for sparse tensors, and for tensors in which several elements share memory.
bool is_writable(const torch::Tensor& tensor) {
  return tensor.layout() == torch::kStrided && tensor.is_non_overlapping_and_dense();
}

/// Moves each element of `tensor` to a neighbour, in a random direction.
void round_randomly(const torch::Tensor& tensor, const at::Generator& generator) {
  const double epsilon = epsilon_of(tensor.scalar_type());
  if (epsilon == 0.0 || !is_writable(tensor) || tensor.numel() == 0) return;
  constexpr int64_t kElements = int64_t{1} << 20;  // of a part, since the factors need memory
  const auto rows = tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor;
  const auto elements_of_row = rows.numel() / rows.size(0);
  for (const auto& part : rows.split(std::max<int64_t>(1, kElements / elements_of_row))) {
    const auto bits = torch::randint(2, part.sizes(), generator, torch::kDouble);
    const auto factors = bits.mul_(2 * epsilon).add_(1.0 - epsilon);  // 1 - epsilon or 1 + epsilon
    part.mul_(factors.to(part.options()));
  }
}

/// Restores the parameters and buffers of a module at the end of the scope.
class StateGuard {
 public:
  explicit StateGuard(const torch::nn::Module& module) : state_(state_of(module)) {}
  ~StateGuard() { restore(); }
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

  void restore() const { restore_all(state_.kept()); }
  void round(const at::Generator& generator) const {
    for (const auto& kept : state_.kept()) round_randomly(kept.tensor.data(), generator);
  }

 private:
  static std::vector<torch::Tensor> state_of(const torch::nn::Module& module) {
    auto all = module.parameters();
    const auto buffers = module.buffers();
    all.insert(all.end(), buffers.begin(), buffers.end());
    std::erase_if(all,
                  [](const auto& tensor) { return !tensor.defined() || !is_writable(tensor); });
    return all;
  }

  CopyBeforeWrite state_;
};

/// Returns the largest finite absolute difference.
double largest_difference(const torch::Tensor& one, const torch::Tensor& other) {
  if (one.sizes() != other.sizes() || one.numel() == 0 || !one.is_floating_point()) return 0.0;
  const auto difference = (one.to(torch::kDouble) - other.to(torch::kDouble)).abs();
  return difference.masked_fill(difference.isfinite().logical_not(), 0.0).max().item<double>();
}

}  // namespace

std::vector<double> rounding_of_outputs(const torch::nn::Module& module, const Forward& forward,
                                        const std::vector<torch::Tensor>& inputs) {
  constexpr int kDraws = 2;
  const torch::NoGradGuard no_grad;
  const auto rng = rng_state(rng_devices(inputs.front().device()));
  const RngGuard rng_guard(rng);
  const StateGuard state(module);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(/*seed=*/1);
  const auto exact = forward(copies_of(inputs)).tensors;
  std::vector<double> rounding(exact.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    state.restore();
    state.round(generator);
    set_rng_state(rng);
    const auto rounded = copies_of(inputs);
    for (const auto& input : rounded) round_randomly(input, generator);
    const auto outputs = forward(rounded).tensors;
    for (std::size_t i = 0; i < std::min(exact.size(), outputs.size()); ++i) {
      rounding[i] = std::max(rounding[i], largest_difference(exact[i], outputs[i]));
    }
  }
  return rounding;
}

}  // namespace attend
