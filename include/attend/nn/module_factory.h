#pragma once

#include <torch/nn/modules/container/any.h>

#include <functional>

namespace attend {

/// Creates a module that maps (..., width) to the same shape, e.g. a norm. Options contain
/// factories because each layer creates its own modules. Any module can be used. For `clone()`, it
/// must derive from torch::nn::Cloneable: LibTorch leaves the weights of other modules in the clone
/// at their new initial values.
///
///     options.residual().norm(rms_norm());
///     options.residual().norm([](int64_t width) {
///       return torch::nn::AnyModule(MyNorm(width));
///     });
using ModuleFactory = std::function<torch::nn::AnyModule(int64_t width)>;

}  // namespace attend
