#pragma once

#include <torch/types.h>

#include <tuple>

/// Operators outside of aten, as a library of a user defines them, and their translations to ONNX.
namespace attend::user {

/// Calls attend_test::clip_below, which returns max(x, limit).
torch::Tensor clip_below(const torch::Tensor& x, double limit);
/// Calls attend_test::gelu.
torch::Tensor gelu(const torch::Tensor& x);
/// Calls attend_test::bounds, which returns the minima and maxima along the dimensions `dims`.
std::tuple<torch::Tensor, torch::Tensor> bounds(const torch::Tensor& x, at::IntArrayRef dims);
/// Calls attend_test::untranslated, which returns x and has no translation.
torch::Tensor untranslated(const torch::Tensor& x);

/// Registers the translations. Further calls have no effect.
void register_translations();

}  // namespace attend::user
