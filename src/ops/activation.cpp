#include "attend/ops/activation.h"

namespace attend {

torch::Tensor activate(const torch::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return torch::relu(x);
    case Activation::gelu:
      return torch::gelu(x);
    case Activation::gelu_tanh:
      return torch::gelu(x, "tanh");
    case Activation::silu:
      return torch::silu(x);
  }
  TORCH_CHECK_VALUE(false, "unknown activation ", static_cast<int>(activation));
}

}  // namespace attend
