#pragma once

#include "attend/api.h"
#include "attend/nn/module_factory.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <optional>

namespace attend {

/// Options for `LayerNorm`.
///
///     LayerNormOptions(64).eps(1e-6).bias(false)
struct LayerNormOptions {
  LayerNormOptions(int64_t width) : width_(width) {}  // NOLINT: as in torch::nn

  TORCH_ARG(int64_t, width);
  /// Added to the variance.
  TORCH_ARG(double, eps) = 1e-5;
  /// Whether a learned bias is added, beside the learned weight.
  TORCH_ARG(bool, bias) = true;
};

/// Layer normalisation (Ba et al. 2016): mean 0 and variance 1 over the width, then a learned
/// weight and bias. Unlike torch::nn::LayerNorm it can go without the bias.
///
/// State dict: `weight` (width) and, unless switched off, `bias` (width).
///
///     LayerNorm norm(64);
///     auto y = norm(x);  // (..., 64) -> (..., 64)
class ATTEND_API LayerNormImpl : public torch::nn::Cloneable<LayerNormImpl> {
 public:
  explicit LayerNormImpl(const LayerNormOptions& options);

  /// `x` (..., width), returns the same shape. Throws c10::ValueError for another width.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  LayerNormOptions options;
  torch::Tensor weight;
  torch::Tensor bias;  ///< undefined if switched off
};
TORCH_MODULE(LayerNorm);

/// Options for `RMSNorm`.
///
///     RMSNormOptions(64).eps(1e-6)
struct RMSNormOptions {
  RMSNormOptions(int64_t width) : width_(width) {}  // NOLINT: as in torch::nn

  TORCH_ARG(int64_t, width);
  /// Added to the mean square; the dtype's epsilon if not set, as in PyTorch.
  TORCH_ARG(std::optional<double>, eps);
};

/// Root-mean-square normalisation (Zhang and Sennrich 2019): mean square 1 over the width, then a
/// learned weight.
///
/// State dict: `weight` (width).
///
///     RMSNorm norm(64);
///     auto y = norm(x);  // (..., 64) -> (..., 64)
class ATTEND_API RMSNormImpl : public torch::nn::Cloneable<RMSNormImpl> {
 public:
  explicit RMSNormImpl(const RMSNormOptions& options);

  /// `x` (..., width), returns the same shape. Throws c10::ValueError for another width.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  RMSNormOptions options;
  torch::Tensor weight;
};
TORCH_MODULE(RMSNorm);

/// Euclidean length 1 over the width, times one learned number that begins as sqrt(width): between
/// queries and keys it makes the scores cosines with a learned temperature (Henry et al. 2020).
///
/// State dict: `scale` ().
///
///     L2Norm norm(16);
///     auto y = norm(x);  // (..., 16) -> (..., 16)
class ATTEND_API L2NormImpl : public torch::nn::Cloneable<L2NormImpl> {
 public:
  explicit L2NormImpl(int64_t width);

  /// `x` (..., width), returns the same shape; zeros stay zeros. Throws c10::ValueError for another
  /// width.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t width;
  torch::Tensor scale;
};
TORCH_MODULE(L2Norm);

/// Makes a `LayerNorm`: `.norm(layer_norm(1e-6, /*bias=*/false))`.
ATTEND_API ModuleFactory layer_norm(double eps = 1e-5, bool bias = true);

/// Makes an `RMSNorm`: `.norm(rms_norm(1e-6))`.
ATTEND_API ModuleFactory rms_norm(std::optional<double> eps = std::nullopt);

/// Makes an `L2Norm`: `.add(qk_norm(l2_norm()))`.
ATTEND_API ModuleFactory l2_norm();

}  // namespace attend
