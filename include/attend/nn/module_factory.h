#pragma once

#include <torch/nn/modules/container/any.h>

#include <functional>

namespace attend {

/// Makes a module that maps (..., width) to the same shape: a norm, or a scale of a branch. Options
/// hold such a factory instead of a name out of a list, so any module can stand there, and each
/// layer gets one of its own.
///
///     TransformerBlockOptions(64, 4).norm(rms_norm());
///     TransformerBlockOptions(64, 4).norm([](int64_t width) {
///       return torch::nn::AnyModule(MyNorm(width));
///     });
using ModuleFactory = std::function<torch::nn::AnyModule(int64_t width)>;

}  // namespace attend
