#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/module_factory.h"

#include <torch/nn/pimpl.h>

#include <optional>

namespace attend {

/// Options for `LayerNorm`.
///
///     LayerNormOptions(64).eps(1e-6).bias(false)
struct LayerNormOptions {
  /// Options for `width` channels.
  LayerNormOptions(int64_t width) : width_(width) {}  // NOLINT: as in torch::nn

  /// Number of channels.
  ATTEND_ARG(int64_t, width);
  /// Epsilon, added to the variance.
  ATTEND_ARG(double, eps) = 1e-5;
  /// If true, the norm has a learned bias in addition to the weight.
  ATTEND_ARG(bool, bias) = true;
};

/// Layer normalization (Ba et al. 2016) over the last dimension, with a learned weight and an
/// optional bias. In torch::nn::LayerNorm, weight and bias can only be disabled together.
///
/// State dict: `weight` (width) and, if enabled, `bias` (width).
///
///     LayerNorm norm(64);
///     auto y = norm(x);  // (..., 64) -> (..., 64)
class ATTEND_API LayerNormImpl : public Cloneable<LayerNormImpl> {
 public:
  /// Throws c10::ValueError if the width is not positive, or if eps is negative or not finite.
  explicit LayerNormImpl(const LayerNormOptions& options);

  /// `x` (..., width); returns a tensor of the same shape. Throws c10::ValueError if the last
  /// dimension of `x` is not `width`.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  LayerNormOptions options;  ///< options passed to the constructor
  torch::Tensor weight;      ///< (width)
  torch::Tensor bias;        ///< (width); undefined without bias
};
TORCH_MODULE(LayerNorm);

/// Options for `RMSNorm`.
///
///     RMSNormOptions(64).eps(1e-6)
struct RMSNormOptions {
  /// Options for `width` channels.
  RMSNormOptions(int64_t width) : width_(width) {}  // NOLINT: as in torch::nn

  /// Number of channels.
  ATTEND_ARG(int64_t, width);
  /// Epsilon, added to the mean square; if not set, the machine epsilon of the dtype, as in
  /// PyTorch.
  ATTEND_ARG(std::optional<double>, eps);
};

/// Root mean square normalization (Zhang and Sennrich 2019) over the last dimension, with a
/// learned weight. If the weight has a wider dtype than the input, such as float32 and bfloat16,
/// the norm is computed in it and rounded once.
///
/// State dict: `weight` (width).
///
///     RMSNorm norm(64);
///     auto y = norm(x);  // (..., 64) -> (..., 64)
class ATTEND_API RMSNormImpl : public Cloneable<RMSNormImpl> {
 public:
  /// Throws c10::ValueError if the width is not positive, or if eps is negative or not finite.
  explicit RMSNormImpl(const RMSNormOptions& options);

  /// `x` (..., width); returns a tensor of the same shape. Throws c10::ValueError if the last
  /// dimension of `x` is not `width`.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  RMSNormOptions options;  ///< options passed to the constructor
  torch::Tensor weight;    ///< (width)
};
TORCH_MODULE(RMSNorm);

/// L2 normalization over the last dimension, times one learned scale, initially sqrt(width). If
/// queries and keys are normalized in this way, the scores are cosine similarities times a learned
/// factor (Henry et al. 2020).
///
/// State dict: `scale` ().
///
///     L2Norm norm(16);
///     auto y = norm(x);  // (..., 16) -> (..., 16)
class ATTEND_API L2NormImpl : public Cloneable<L2NormImpl> {
 public:
  /// Throws c10::ValueError if the width is not positive.
  explicit L2NormImpl(int64_t width);

  /// `x` (..., width); returns a tensor of the same shape. Zero vectors stay zero. Throws
  /// c10::ValueError if the last dimension of `x` is not `width`.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t width;        ///< number of channels
  torch::Tensor scale;  ///< ()
};
TORCH_MODULE(L2Norm);

/// Returns a factory of `LayerNorm`.
///
///     options.residual().norm(layer_norm(1e-6, /*bias=*/false));
ATTEND_API ModuleFactory layer_norm(double eps = 1e-5, bool bias = true);

/// Returns a factory of `RMSNorm`.
///
///     options.residual().norm(rms_norm(1e-6));
ATTEND_API ModuleFactory rms_norm(std::optional<double> eps = std::nullopt);

/// Returns a factory of `L2Norm`.
///
///     options.attention().add(qk_norm(l2_norm()));
ATTEND_API ModuleFactory l2_norm();

}  // namespace attend
