#pragma once

#include <torch/nn/modules/container/any.h>

#include <functional>

namespace attend {

/// A function that creates a module that maps (..., width) to the same shape, e.g. a norm. Options
/// contain factories because each layer creates its own modules. Any module can be used, but should
/// derive from torch::nn::Cloneable. Otherwise, LibTorch's `clone()` of the model does not copy the
/// weights of the module, but initializes new ones.
///
///     options.residual().norm(rms_norm());
///     options.residual().norm([](int64_t width) {
///       return torch::nn::AnyModule(MyNorm(width));
///     });
using ModuleFactory = std::function<torch::nn::AnyModule(int64_t width)>;

}  // namespace attend
