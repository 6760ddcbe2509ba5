#pragma once

#include <torch/nn/modules/container/any.h>

#include <functional>

namespace attend {

/// A function that creates a module, such as a norm. The module maps a tensor (..., width) to a
/// tensor of the same shape. Options contain factories instead of modules, because each layer
/// creates its own modules. The module should derive from `Cloneable`. Otherwise, LibTorch's
/// `clone()` of the model does not copy the weights of the module, but initializes new ones.
///
///     options.residual().norm(rms_norm());
///     options.residual().norm([](int64_t width) {
///       return torch::nn::AnyModule(MyNorm(width));
///     });
using ModuleFactory = std::function<torch::nn::AnyModule(int64_t width)>;

}  // namespace attend
