#include "ops/double_backward.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <memory>

namespace attend {
namespace {

using torch::autograd::variable_list;

/// Identity function whose backward pass throws.
struct ThrowInBackward : torch::autograd::Function<ThrowInBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                               const torch::Tensor& gradient) {
    return gradient.view_as(gradient);
  }
  static variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                const variable_list& /*gradients*/) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "LibTorch's fused attention kernels do not support double backward: ", kUseRecorder);
  }
};

/// Post-hook of a fused kernel's backward function. With create_graph = true, the gradients that
/// the backward function returns require a gradient. The hook then makes a backward pass through
/// these gradients throw.
struct ForbidDoubleBackward : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& gradients, const variable_list&) override {
    auto result = gradients;
    for (auto& gradient : result) {
      if (gradient.defined() && gradient.requires_grad())
        gradient = ThrowInBackward::apply(gradient);
    }
    return result;
  }
};

}  // namespace

void forbid_double_backward(const torch::Tensor& output) {
  // On CUDA, `output` may be a slice of the kernel's output. Then `output.grad_fn()` is the
  // backward function of the slice, and the next node is the backward function of the kernel.
  auto node = output.grad_fn();
  for (int i = 0; i < 2 && node != nullptr; ++i) {
    if (node->name().rfind("ScaledDotProduct", 0) == 0) {
      node->add_post_hook(std::make_unique<ForbidDoubleBackward>());
      return;
    }
    node = node->num_outputs() > 0 ? node->next_edge(0).function : nullptr;
  }
}

}  // namespace attend
