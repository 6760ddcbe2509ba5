#pragma once

#include "attend/api.h"

#include <torch/nn/cloneable.h>

#include <memory>
#include <optional>

namespace attend {

namespace detail {
/// Sets the training mode of `copy` and its submodules, and requires_grad of their parameters, as
/// in `original`. Submodules and parameters that only one of the modules has are ignored.
ATTEND_API void copy_training_flags(const torch::nn::Module& original, torch::nn::Module& copy);
}  // namespace detail

/// torch::nn::Cloneable whose `clone` also copies the training mode of all submodules and
/// requires_grad of all parameters. LibTorch's clones of containers such as torch::nn::ModuleList
/// are in training mode, and all parameters of its clones require a gradient.
///
/// `train()` and `eval()` call `check_submodules` of the module and of its submodules. `forward`
/// does not, since the check would take time in each call: after LibTorch's `replace_module`, call
/// `train()` or `eval()`. Without this call, a replaced submodule is not detected, and `forward`
/// still uses the old one.
///
///     struct MyNormImpl : Cloneable<MyNormImpl> {
///       void reset() override {}
///     };
template <typename Derived>
class Cloneable : public torch::nn::Cloneable<Derived> {
 public:
  using torch::nn::Cloneable<Derived>::Cloneable;

  /// Returns a deep copy of the module, on `device` if given.
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override {
    auto copy = torch::nn::Cloneable<Derived>::clone(device);
    detail::copy_training_flags(*this, *copy);
    return copy;
  }

  /// Sets the training mode of the module and its submodules. Throws c10::ValueError if
  /// `check_submodules` throws; the mode of some submodules may then have been set.
  void train(bool on = true) override {
    check_submodules();
    torch::nn::Cloneable<Derived>::train(on);
  }

  /// Throws c10::ValueError if `forward` calls a module that is not the registered submodule, for
  /// example after `replace_module` without an assignment to the member. Does not check submodules
  /// of submodules.
  virtual void check_submodules() const {}
};

}  // namespace attend
