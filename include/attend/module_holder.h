#pragma once

#include <torch/nn/pimpl.h>

/// Declares the holder `name` of the module `name##Impl`, as TORCH_MODULE does, with an operator()
/// that has the given `parameters` and calls `forward`. Unlike LibTorch's variadic operator(), it
/// accepts braced arguments. `arguments` are the names of the parameters.
///
///     block(x, {.causal = true});
#define ATTEND_MODULE(name, parameters, arguments)                              \
  class name : public torch::nn::ModuleHolder<name##Impl> {                     \
   public:                                                                      \
    using torch::nn::ModuleHolder<name##Impl>::ModuleHolder;                    \
    using Impl = name##Impl;                                                    \
    auto operator() parameters const { return this->impl_->forward arguments; } \
  }
