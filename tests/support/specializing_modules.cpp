#include "support/specializing_modules.h"

#include <torch/types.h>

#include <bit>
#include <cmath>

/// Outside of the namespace attend, as functions of users. The compiler inlines it.
[[gnu::always_inline]] inline torch::Tensor scaled_by_bits(const torch::Tensor& x) {
  return x.mul(std::popcount(static_cast<uint64_t>(x.size(-1))));
}

namespace attend {

torch::Tensor SpecializesLengthImpl::forward(const torch::Tensor& x) {
  return x.cumsum(-1) / std::sin(static_cast<double>(x.size(-1)));
}

torch::Tensor NarrowsToBitsImpl::forward(const torch::Tensor& x) {
  return x.narrow(-1, 0, std::popcount(static_cast<uint64_t>(x.size(-1))));
}

torch::Tensor SpecializesBatchImpl::forward(const torch::Tensor& x) {
  auto state = torch::zeros({1, x.size(1), 4});
  if (x.size(1) > 3) {
    state = state.cos().sin();
  }
  return std::get<0>(lstm(x, std::make_tuple(state, state)));
}

torch::Tensor CallsInlinedFunctionImpl::forward(const torch::Tensor& x) {
  return scaled_by_bits(x).exp();
}

torch::Tensor DoublesLongInputsImpl::forward(const torch::Tensor& x) {
  auto y = x.exp();
  if (x.size(-1) > 16) {
    y = y * 2;
  }
  return y * 3 + 1;
}

torch::Tensor LoopsOverACellImpl::forward(const torch::Tensor& x) {
  auto state = torch::zeros({x.size(0), 4});
  for (int64_t t = 0; t < x.size(1); ++t) {
    state = cell(x.select(1, t), state);
  }
  return state;
}

torch::Tensor LoopsOverPositionsImpl::forward(const torch::Tensor& x) {
  auto sum = torch::zeros({x.size(0)});
  for (int64_t t = 0; t < x.size(1); ++t) {
    sum = sum.tanh();
    sum = sum + x.select(1, t);
  }
  return sum;
}

}  // namespace attend
