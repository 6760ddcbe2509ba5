#pragma once

#include <torch/types.h>

#include <functional>
#include <optional>
#include <vector>

namespace attend {

/// Arguments of `scaled_dot_product_attention` without dropout.
struct FusedInputs {
  torch::Tensor query;
  torch::Tensor key;
  torch::Tensor value;
  torch::Tensor mask = {};  ///< undefined = none
  bool causal = false;
  std::optional<double> scale = {};
};

/// Returns the gradients of `forward(inputs)` that are required; undefined = not required. If
/// gradients are enabled, they support double backward, as far as the operators of `forward` do.
/// `inputs` may contain undefined tensors.
std::vector<torch::Tensor> differentiable_gradients(
    std::vector<torch::Tensor> inputs,
    const std::function<torch::Tensor(const std::vector<torch::Tensor>&)>& forward,
    const torch::Tensor& output_gradient);

/// Returns the gradients of attention with respect to query, key, value and mask, as above.
std::vector<torch::Tensor> differentiable_gradients(const FusedInputs& inputs,
                                                    const torch::Tensor& output_gradient);

/// Makes double backward through `output` work if a fused kernel of LibTorch computed it: the
/// gradients with create_graph = true are then `differentiable_gradients`. With dropout, of which
/// these do not know the random numbers, double backward throws c10::NotImplementedError. `output`:
/// a result of `scaled_dot_product_attention`.
void support_double_backward(const torch::Tensor& output);

}  // namespace attend
