#pragma once

#include "attend/api.h"

#include <torch/nn/cloneable.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

namespace attend {

/// Base class of `Cloneable`.
class ATTEND_API SubmoduleChecks {
 public:
  virtual ~SubmoduleChecks() = default;

  /// Throws c10::ValueError if `forward` calls a module that is not the registered submodule, for
  /// example after `replace_module` without an assignment to the member. Does not check submodules
  /// of submodules.
  virtual void check_submodules() const = 0;
};

/// Calls `check_submodules` of `module` and of all its submodules that derive from `Cloneable`.
ATTEND_API void check_all_submodules(const torch::nn::Module& module);

namespace detail {
/// The submodules that `forward` calls: for each name, returns the member of a module; null = none.
using UsedSubmodules =
    std::map<std::string, std::function<const torch::nn::Module*(const torch::nn::Module&)>>;

/// Throws c10::ValueError unless each of `used` is the registered submodule of `owner`. If it is a
/// torch::nn::ModuleList, its elements must be the registered submodules, too.
ATTEND_API void check_used(const torch::nn::Module& owner, const UsedSubmodules& used);

/// Sets the training mode of `copy` and its submodules, and requires_grad of their parameters, as
/// in `original`. Submodules and parameters that only one of the modules has are ignored.
ATTEND_API void copy_training_flags(const torch::nn::Module& original, torch::nn::Module& copy);
}  // namespace detail

/// torch::nn::Cloneable whose `clone` also copies the training mode of all submodules and
/// requires_grad of all parameters. LibTorch's clones of containers such as torch::nn::ModuleList
/// are in training mode, and all parameters of its clones require a gradient.
///
/// `train()`, `eval()`, `EvalGuard`, `generate` and the exporters call `check_all_submodules`.
/// `forward` does not, since the check would take time in each call: after LibTorch's
/// `replace_module`, call `train()` or `eval()`. Without this call, a replaced submodule is not
/// detected, and `forward` still uses the old one.
///
///     struct MyBlockImpl : Cloneable<MyBlockImpl> {
///       void reset() override { use("linear", &MyBlockImpl::linear, torch::nn::Linear(4, 4)); }
///       torch::nn::Linear linear{nullptr};
///     };
template <typename Derived>
class Cloneable : public torch::nn::Cloneable<Derived>, public SubmoduleChecks {
 public:
  using torch::nn::Cloneable<Derived>::Cloneable;

  /// Returns a deep copy of the module, on `device` if given.
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override {
    auto copy = torch::nn::Cloneable<Derived>::clone(device);
    detail::copy_training_flags(*this, *copy);
    return copy;
  }

  /// Sets the training mode of the module and its submodules. Throws c10::ValueError, and sets no
  /// mode, if `check_all_submodules` throws.
  void train(bool on = true) override {
    check_all_submodules(*this);
    torch::nn::Cloneable<Derived>::train(on);
  }

  /// Checks the submodules that were registered with `use`.
  void check_submodules() const override { detail::check_used(*this, used_); }

 protected:
  /// Assigns `module` to `member` and, unless `module` is empty, registers it as the submodule
  /// `name`. From then on, `check_submodules` requires that both are the same module.
  template <typename Holder>
  void use(const std::string& name, Holder Derived::*member,
           const std::type_identity_t<Holder>& module) {
    static_cast<Derived&>(*this).*member = module;
    if (!module.is_empty()) this->register_module(name, module.ptr());
    used_[name] = [member](const torch::nn::Module& self) -> const torch::nn::Module* {
      const auto& used = static_cast<const Derived&>(self).*member;
      return used.is_empty() ? nullptr : used.ptr().get();
    };
  }

 private:
  detail::UsedSubmodules used_;
};

}  // namespace attend
