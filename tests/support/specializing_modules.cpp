#include "support/specializing_modules.h"

#include <torch/types.h>

namespace attend {

torch::Tensor SpecializesLengthImpl::forward(const torch::Tensor& x) {
  return x.cumsum(-1) / static_cast<double>(x.size(-1));
}

torch::Tensor ReshapesToLengthImpl::forward(const torch::Tensor& x) {
  return x.view({-1, x.size(-1), 1});
}

torch::Tensor SpecializesBatchImpl::forward(const torch::Tensor& x) {
  return std::get<0>(lstm(x));
}

torch::Tensor DoublesLongInputsImpl::forward(const torch::Tensor& x) {
  auto y = x.exp();
  if (x.size(-1) > 16) {
    y = y * 2;
  }
  return y * 3 + 1;
}

}  // namespace attend
