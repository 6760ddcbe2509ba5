#pragma once

#include "attend/api.h"

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <memory>

namespace attend {

/// Returns a deep copy of a module whose floating point parameters and buffers have the dtype
/// `dtype`. The module itself, the integer buffers of the copy and the random number generators are
/// unchanged. Throws c10::ValueError if `dtype` is not a floating point dtype, and c10::Error if
/// the module has no `clone`.
ATTEND_API std::shared_ptr<torch::nn::Module> cast_copy(const torch::nn::Module& module,
                                                        c10::ScalarType dtype);

/// Does the same for a module holder.
///
///     export_onnx(plan_export(cast_copy(model, torch::kHalf)), "model.onnx");
template <typename Holder>
Holder cast_copy(const Holder& module, c10::ScalarType dtype) {
  using Contained = typename Holder::ContainedType;
  return Holder(std::dynamic_pointer_cast<Contained>(
      cast_copy(static_cast<const torch::nn::Module&>(*module), dtype)));
}

}  // namespace attend
