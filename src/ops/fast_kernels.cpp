#include "ops/fast_kernels.h"

#include "ops/autocast.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace attend {
namespace {

/// Numbers of guards of this thread.
thread_local int no_fast_kernels_guards = 0;
thread_local int no_inference_kernels_guards = 0;

}  // namespace

bool fast_kernels_are_enabled() {
  static const bool enabled = [] {
    const auto* fast = std::getenv("ATTEND_FAST");
    return fast == nullptr || std::string_view(fast) != "0";
  }();
  return enabled && no_fast_kernels_guards == 0;
}

NoFastKernelsGuard::NoFastKernelsGuard() {
  ++no_fast_kernels_guards;
}

NoFastKernelsGuard::~NoFastKernelsGuard() {
  --no_fast_kernels_guards;
}

NoInferenceKernelsGuard::NoInferenceKernelsGuard() {
  ++no_inference_kernels_guards;
}

NoInferenceKernelsGuard::~NoInferenceKernelsGuard() {
  --no_inference_kernels_guards;
}

bool is_plain(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == torch::kStrided && !tensor.is_nested() &&
         !tensor.is_neg() && !tensor._is_zerotensor() && !at::isTensorSubclassLike(tensor) &&
         !is_dual(tensor);
}

bool is_dual(const torch::Tensor& tensor) {
  return tensor.defined() && tensor._fw_grad(/*level=*/0).defined();
}

bool computes_gradients(std::initializer_list<const torch::Tensor*> tensors) {
  return torch::GradMode::is_enabled() &&
         std::any_of(tensors.begin(), tensors.end(), [](const torch::Tensor* tensor) {
           return tensor->defined() && tensor->requires_grad();
         });
}

bool in_functorch_transform() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

bool can_use_fast_kernels(std::initializer_list<const torch::Tensor*> tensors) {
  return fast_kernels_are_enabled() && !torch::jit::tracer::isTracing() &&
         !in_functorch_transform() &&
         std::all_of(tensors.begin(), tensors.end(), [](const torch::Tensor* tensor) {
           return !tensor->defined() || is_plain(*tensor);
         });
}

bool can_use_inference_kernels(std::initializer_list<const torch::Tensor*> tensors) {
  return no_inference_kernels_guards == 0 && !computes_gradients(tensors) &&
         can_use_fast_kernels(tensors) && !autocast_dtype(torch::kCPU);
}

}  // namespace attend
