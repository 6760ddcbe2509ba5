#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/module_factory.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `LayerScale`.
///
///     LayerScaleOptions(64).init(1e-4)
struct LayerScaleOptions {
  LayerScaleOptions(int64_t width) : width_(width) {}  // NOLINT: as in torch::nn

  /// Number of channels.
  ATTEND_ARG(int64_t, width);
  /// Initial value of the weights. With a small value, a block is initially close to the identity.
  ATTEND_ARG(double, init) = 1e-5;
};

/// Multiplies a residual branch by a learned weight per channel (LayerScale, Touvron et al. 2021).
///
/// State dict: `weight` (width).
///
///     LayerScale scale(64);
///     auto y = scale(branch);  // (..., 64) -> (..., 64)
class ATTEND_API LayerScaleImpl : public Cloneable<LayerScaleImpl> {
 public:
  /// Throws c10::ValueError if the width is not positive or `init` is not finite.
  explicit LayerScaleImpl(const LayerScaleOptions& options);

  /// `x` (..., width); returns a tensor of the same shape. Throws c10::ValueError if the last
  /// dimension of `x` is not `width`.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  LayerScaleOptions options;  ///< options passed to the constructor
  torch::Tensor weight;       ///< (width)
};
TORCH_MODULE(LayerScale);

/// Multiplies a residual branch by one learned scalar, initialized to 0, so that a block is
/// initially the identity (ReZero, Bachlechner et al. 2020).
///
/// State dict: `weight` ().
///
///     ReZero scale;
///     auto y = scale(branch);  // any shape; initially zeros
class ATTEND_API ReZeroImpl : public Cloneable<ReZeroImpl> {
 public:
  /// Initializes the weight to 0.
  ReZeroImpl();

  /// `x` of any shape; returns a tensor of the same shape.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  torch::Tensor weight;  ///< ()
};
TORCH_MODULE(ReZero);

/// Multiplies a residual branch by a constant.
///
///     ConstantScale scale(0.5);
///     auto y = scale(branch);  // any shape
class ATTEND_API ConstantScaleImpl : public Cloneable<ConstantScaleImpl> {
 public:
  /// `factor`: the constant. Throws c10::ValueError if `factor` is not finite.
  explicit ConstantScaleImpl(double factor);

  /// `x` of any shape; returns a tensor of the same shape.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  double factor;  ///< the constant
};
TORCH_MODULE(ConstantScale);

/// Returns a factory of `LayerScale`.
///
///     options.residual().branch_scale(layer_scale(1e-4));
ATTEND_API ModuleFactory layer_scale(double init = 1e-5);

/// Returns a factory of `ReZero`.
///
///     options.residual().branch_scale(rezero());
ATTEND_API ModuleFactory rezero();

/// Returns a factory of `ConstantScale`.
///
///     options.residual().branch_scale(constant_scale(0.5));
ATTEND_API ModuleFactory constant_scale(double factor);

}  // namespace attend
