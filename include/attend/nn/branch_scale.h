#pragma once

#include "attend/api.h"
#include "attend/nn/module_factory.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `LayerScale`.
///
///     LayerScaleOptions(64).init(1e-4)
struct LayerScaleOptions {
  LayerScaleOptions(int64_t width) : width_(width) {}  // NOLINT: as in torch::nn

  TORCH_ARG(int64_t, width);
  /// What each weight begins as: small, so that a block begins near the identity.
  TORCH_ARG(double, init) = 1e-5;
};

/// A learned weight for each channel of a residual branch (LayerScale, Touvron et al. 2021).
///
/// State dict: `weight` (width).
///
///     LayerScale scale(64);
///     auto y = scale(branch);  // (..., 64) -> (..., 64)
class ATTEND_API LayerScaleImpl : public torch::nn::Cloneable<LayerScaleImpl> {
 public:
  explicit LayerScaleImpl(const LayerScaleOptions& options);

  /// `x` (..., width), returns the same shape. Throws c10::ValueError for another width.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  LayerScaleOptions options;
  torch::Tensor weight;
};
TORCH_MODULE(LayerScale);

/// One learned number that multiplies a residual branch and begins as 0, so that a block begins as
/// the identity (ReZero, Bachlechner et al. 2020).
///
/// State dict: `weight` ().
///
///     ReZero scale;
///     auto y = scale(branch);  // any shape; zeros at first
class ATTEND_API ReZeroImpl : public torch::nn::Cloneable<ReZeroImpl> {
 public:
  ReZeroImpl();

  /// `x` of any shape, returns the same shape.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  torch::Tensor weight;
};
TORCH_MODULE(ReZero);

/// Multiplies a residual branch by a fixed number.
///
///     ConstantScale scale(0.5);
///     auto y = scale(branch);  // any shape
class ATTEND_API ConstantScaleImpl : public torch::nn::Cloneable<ConstantScaleImpl> {
 public:
  explicit ConstantScaleImpl(double factor);

  /// `x` of any shape, returns the same shape.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  double factor;
};
TORCH_MODULE(ConstantScale);

/// Makes a `LayerScale`: `options.residual().scale(layer_scale(1e-4))`.
ATTEND_API ModuleFactory layer_scale(double init = 1e-5);

/// Makes a `ReZero`: `options.residual().scale(rezero())`.
ATTEND_API ModuleFactory rezero();

/// Makes a `ConstantScale`: `options.residual().scale(constant_scale(0.5))`.
ATTEND_API ModuleFactory constant_scale(double factor);

}  // namespace attend
