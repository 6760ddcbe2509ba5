#pragma once

#include <torch/nn/pimpl.h>

/// Declares the holder `name` of the module `name##Impl`, as TORCH_MODULE does. The holder's
/// operator() has the given `parameters` and passes `arguments`, the names of the parameters, to
/// `forward`. Calls may therefore have braced arguments, which the holders of TORCH_MODULE do not
/// accept.
///
///     block(x, {.causal = true});
#define ATTEND_MODULE(name, parameters, arguments)                              \
  class name : public torch::nn::ModuleHolder<name##Impl> {                     \
   public:                                                                      \
    using torch::nn::ModuleHolder<name##Impl>::ModuleHolder;                    \
    using Impl = name##Impl;                                                    \
    auto operator() parameters const { return this->impl_->forward arguments; } \
  }
