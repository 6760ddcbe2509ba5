#include "support/freezing_modules.h"

#include <torch/types.h>

namespace attend {

torch::Tensor FreezesItsLengthImpl::forward(const torch::Tensor& x) {
  return x.cumsum(-1) / static_cast<double>(x.size(-1));
}

torch::Tensor ReshapesToItsLengthImpl::forward(const torch::Tensor& x) {
  return x.view({-1, x.size(-1), 1});
}

torch::Tensor FreezesItsBatchImpl::forward(const torch::Tensor& x) {
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
