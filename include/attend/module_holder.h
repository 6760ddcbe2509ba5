#pragma once

#include <torch/nn/pimpl.h>

/// Declares the holder `name` of the module `name##Impl`, as TORCH_MODULE does, with an operator()
/// of the given parameters that calls `forward`. Arguments may then be braced, which LibTorch's
/// variadic operator() does not allow. `arguments` are the names of the parameters.
///
///     block(x, {.causal = true});
#define ATTEND_MODULE(name, parameters, arguments)                              \
  class name : public torch::nn::ModuleHolder<name##Impl> {                     \
   public:                                                                      \
    using torch::nn::ModuleHolder<name##Impl>::ModuleHolder;                    \
    using Impl = name##Impl;                                                    \
    auto operator() parameters const { return this->impl_->forward arguments; } \
  }
