#include "attend/ops/activation.h"

namespace attend {
namespace {

torch::Tensor apply_elementwise(const torch::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return torch::relu(x);
    case Activation::gelu:
    case Activation::geglu:
      return torch::gelu(x);
    case Activation::gelu_tanh:
    case Activation::geglu_tanh:
      return torch::gelu(x, "tanh");
    case Activation::silu:
    case Activation::swiglu:
      return torch::silu(x);
    case Activation::relu2:
      return torch::relu(x).square();
    case Activation::glu:
      return torch::sigmoid(x);
  }
  TORCH_CHECK_VALUE(false, "unknown activation ", static_cast<int>(activation));
}

}  // namespace

bool is_gated(Activation activation) {
  return activation == Activation::glu || activation == Activation::geglu ||
         activation == Activation::geglu_tanh || activation == Activation::swiglu;
}

torch::Tensor activate(const torch::Tensor& x, Activation activation) {
  if (!is_gated(activation)) return apply_elementwise(x, activation);
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(-1) % 2 == 0, to_string(activation),
                    " expects (..., 2F) with an even width, found ", x.sizes());
  const auto halves = x.chunk(2, -1);  // gate and value, each (..., F)
  return apply_elementwise(halves[0], activation) * halves[1];
}

}  // namespace attend
