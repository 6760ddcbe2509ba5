#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <memory>

namespace attend {

/// Reference to a module. A function parameter of this type accepts a torch::nn::Module, a holder
/// such as `LanguageModel`, a torch::nn::AnyModule or a std::shared_ptr. Holders, AnyModules and
/// pointers may be temporary or const.
///
///     void freeze(ModuleRef module);
///     freeze(model);  // instead of freeze(*model)
class ModuleRef {
 public:
  /// Refers to `module`.
  ModuleRef(torch::nn::Module& module) : module_(&module) {}  // NOLINT: implicit
  /// Refers to the module of `holder`. Throws c10::Error if `holder` is empty.
  template <typename Impl>
  ModuleRef(const torch::nn::ModuleHolder<Impl>& holder)  // NOLINT: implicit
      : module_(holder.ptr().get()) {}
  /// Refers to the module in `any`. Throws c10::Error if `any` is empty.
  ModuleRef(const torch::nn::AnyModule& any) : module_(any.ptr().get()) {}  // NOLINT: implicit
  /// Refers to the module that `pointer` points to. Throws c10::ValueError if `pointer` is null.
  template <typename Impl>
  ModuleRef(const std::shared_ptr<Impl>& pointer) : module_(pointer.get()) {  // NOLINT: implicit
    TORCH_CHECK_VALUE(pointer != nullptr, "expected a module, found a null pointer");
  }

  /// Returns the module.
  torch::nn::Module& operator*() const { return *module_; }
  /// Returns the module.
  torch::nn::Module* operator->() const { return module_; }

 private:
  torch::nn::Module* module_;
};

/// Reference to a const module; see `ModuleRef`.
///
///     int64_t parameter_count(ConstModuleRef module);
class ConstModuleRef {
 public:
  /// Refers to `module`.
  ConstModuleRef(const torch::nn::Module& module) : module_(&module) {}  // NOLINT: implicit
  /// Refers to the module of `holder`. Throws c10::Error if `holder` is empty.
  template <typename Impl>
  ConstModuleRef(const torch::nn::ModuleHolder<Impl>& holder)  // NOLINT: implicit
      : module_(holder.ptr().get()) {}
  /// Refers to the module in `any`. Throws c10::Error if `any` is empty.
  ConstModuleRef(const torch::nn::AnyModule& any) : module_(any.ptr().get()) {}  // NOLINT: implicit
  /// Refers to the module that `pointer` points to. Throws c10::ValueError if `pointer` is null.
  template <typename Impl>
  ConstModuleRef(const std::shared_ptr<Impl>& pointer)  // NOLINT: implicit
      : module_(pointer.get()) {
    TORCH_CHECK_VALUE(pointer != nullptr, "expected a module, found a null pointer");
  }
  /// Refers to the module that `module` refers to.
  ConstModuleRef(ModuleRef module) : module_(&*module) {}  // NOLINT: implicit

  /// Returns the module.
  const torch::nn::Module& operator*() const { return *module_; }
  /// Returns the module.
  const torch::nn::Module* operator->() const { return module_; }

 private:
  const torch::nn::Module* module_;
};

}  // namespace attend
