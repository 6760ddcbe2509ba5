#pragma once

#include "attend/ops/fast_kernels.h"

#include <torch/types.h>

#include <initializer_list>

namespace attend {

// Functions that the kernels of attend share.

/// Returns true if `tensor` is a plain tensor on the CPU: not a trace, a batch of vmap, or a dual
/// number.
bool is_plain(const torch::Tensor& tensor);

/// Returns true if `tensor` is defined and a dual number of forward-mode AD.
bool is_dual(const torch::Tensor& tensor);

/// Returns true if gradients are enabled and one of the tensors, which may be undefined, requires
/// one.
bool computes_gradients(std::initializer_list<const torch::Tensor*> tensors);

/// Returns true inside a transform of functorch such as vmap, in which LibTorch refuses autograd
/// functions in C++, also those of tensors that are not transformed.
bool in_functorch_transform();

/// Returns true if kernels of attend may replace operators of LibTorch for these tensors, of which
/// some may be undefined: all are plain, the call is not traced, and `fast_kernels_are_enabled()`.
/// The result does not depend on GradMode, so that a recomputed forward pass has the same bits.
bool can_use_fast_kernels(std::initializer_list<const torch::Tensor*> tensors);

/// The same for kernels without derivatives: also requires that no gradients are computed, that
/// autocast is off, and that this thread has no `NoInferenceKernelsGuard`.
bool can_use_inference_kernels(std::initializer_list<const torch::Tensor*> tensors);

}  // namespace attend
