#include "ops/double_backward.h"

#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <memory>
#include <optional>

namespace attend {
namespace {

namespace nodes = torch::autograd::generated;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// Returns the inputs that a backward function of type `T` has saved, or std::nullopt if `node` is
/// none. `mask` is the member of `T` with the mask, or nullptr.
template <typename T>
std::optional<FusedInputs> saved_inputs(Node& node, torch::autograd::SavedVariable T::*mask) {
  auto* self = dynamic_cast<T*>(&node);
  if (self == nullptr) return {};
  TORCH_CHECK_NOT_IMPLEMENTED(
      self->dropout_p == 0.0,
      "LibTorch's fused attention kernels do not support double backward with dropout (",
      self->dropout_p,
      "): set dropout to 0, or run the forward pass with an AttentionRecorder or with "
      "need_weights");
  FusedInputs inputs{.query = self->query_.unpack(),
                     .key = self->key_.unpack(),
                     .value = self->value_.unpack(),
                     .causal = self->is_causal,
                     .scale = self->scale};
  if (mask != nullptr) inputs.mask = (self->*mask).unpack();
  return inputs;
}

std::optional<FusedInputs> saved_inputs(Node& node) {
  using Cpu = nodes::ScaledDotProductFlashAttentionForCpuBackward0;
  using Flash = nodes::ScaledDotProductFlashAttentionBackward0;
  using Efficient = nodes::ScaledDotProductEfficientAttentionBackward0;
  using Cudnn = nodes::ScaledDotProductCudnnAttentionBackward0;
  auto inputs = saved_inputs<Cpu>(node, &Cpu::attn_mask_);
  if (!inputs) inputs = saved_inputs<Flash>(node, nullptr);
  if (!inputs) inputs = saved_inputs<Efficient>(node, &Efficient::attn_bias_);
  if (!inputs) inputs = saved_inputs<Cudnn>(node, &Cudnn::attn_bias_);
  return inputs;
}

/// Post-hook of a fused kernel's backward function. With create_graph = true, it replaces the
/// gradients, which have no derivatives.
struct SupportDoubleBackward : torch::autograd::FunctionPostHook {
  explicit SupportDoubleBackward(Node* node) : node(node) {}

  variable_list operator()(const variable_list& gradients,
                           const variable_list& output_gradients) override {
    if (!torch::GradMode::is_enabled() || !output_gradients[0].defined()) return gradients;
    const auto inputs = saved_inputs(*node);
    if (!inputs) return gradients;
    const auto computed = differentiable_gradients(*inputs, output_gradients[0]);
    auto result = gradients;
    for (std::size_t i = 0; i < result.size() && i < computed.size(); ++i) {
      if (result[i].defined()) result[i] = computed[i];
    }
    return result;
  }

  Node* node;  // owns this hook
};

}  // namespace

variable_list differentiable_gradients(
    variable_list inputs, const std::function<torch::Tensor(const variable_list&)>& forward,
    const torch::Tensor& output_gradient) {
  const bool create_graph = torch::GradMode::is_enabled();
  const torch::AutoGradMode with_gradients(true);
  variable_list leaves;
  for (auto& input : inputs) {
    if (!input.defined() || !input.requires_grad()) continue;
    // A view, because the inputs may be the same tensor, depend on each other, or have hooks.
    input = input.view_as(input);
    leaves.push_back(input);
  }
  const auto computed = torch::autograd::grad({forward(inputs)}, leaves, {output_gradient},
                                              /*retain_graph=*/create_graph, create_graph,
                                              /*allow_unused=*/true);
  variable_list gradients(inputs.size());
  auto next = computed.begin();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].requires_grad()) gradients[i] = *next++;
  }
  return gradients;
}

variable_list differentiable_gradients(const FusedInputs& inputs,
                                       const torch::Tensor& output_gradient) {
  const auto forward = [&](const variable_list& tensors) {
    const auto &query = tensors[0], &key = tensors[1], &mask = tensors[3];
    const bool is_grouped = query.dim() == 4 && query.size(1) != key.size(1);
    return std::get<0>(at::_scaled_dot_product_attention_math(
        query, key, /*value=*/tensors[2], mask.defined() ? std::make_optional(mask) : std::nullopt,
        /*dropout_p=*/0.0, inputs.causal, /*dropout_mask=*/{}, inputs.scale, is_grouped));
  };
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return differentiable_gradients({inputs.query, inputs.key, inputs.value, inputs.mask}, forward,
                                  output_gradient);
}

void support_double_backward(const torch::Tensor& output) {
  // On CUDA, `output` may be a slice of the kernel's output. Then `output.grad_fn()` is the
  // backward function of the slice, and the next node is the backward function of the kernel.
  auto node = output.grad_fn();
  for (int i = 0; i < 2 && node != nullptr; ++i) {
    if (node->name().rfind("ScaledDotProduct", 0) == 0) {
      node->add_post_hook(std::make_unique<SupportDoubleBackward>(node.get()));
      return;
    }
    node = node->num_outputs() > 0 ? node->next_edge(0).function : nullptr;
  }
}

}  // namespace attend
