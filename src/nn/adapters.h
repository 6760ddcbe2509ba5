#pragma once

#include "attend/api.h"
#include "attend/nn/lora.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace attend {

/// Rows `begin` to `end` - 1 of a weight.
struct WeightRange {
  int64_t begin;
  int64_t end;
};

/// True if the outputs of `layer` are not those of its weight and bias alone.
ATTEND_API bool has_adapters(const torch::nn::LinearImpl& layer);

/// Returns `y` (..., N), the product of `x` (..., K) with the rows `range` of the weight of
/// `layer`, plus the products of the layer's adapters.
ATTEND_API torch::Tensor add_adapters(const torch::Tensor& y, const torch::Tensor& x,
                                      const torch::nn::LinearImpl& layer, WeightRange range);

/// Throws c10::ValueError if a layer that was not created by this library has adapters that are not
/// merged: it may be called as `layer(x)`, without its adapters.
ATTEND_API void check_adapters_are_used(const torch::nn::Module& module);

/// Returns the elements `range` of `apply_linear(x, layer)`.
ATTEND_API torch::Tensor apply_linear_rows(const torch::Tensor& x, const torch::nn::Linear& layer,
                                           WeightRange range);

}  // namespace attend
