#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/nn/cloneable.h"
#include "attend/ops/activation.h"

#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <optional>
#include <variant>

namespace attend {

/// Activation of a feed-forward layer: an `Activation`, or a function that maps a tensor (..., F)
/// to a tensor of the same shape.
using FeedForwardActivation =
    std::variant<Activation, std::function<torch::Tensor(const torch::Tensor&)>>;

/// Options for `FeedForward`.
///
///     FeedForwardOptions(64).dim_feedforward(128).activation(Activation::relu);
///     FeedForwardOptions(64).activation([](const torch::Tensor& x) { return torch::mish(x); });
struct FeedForwardOptions {
  /// Options for width E.
  FeedForwardOptions(int64_t embed_dim) : embed_dim_(embed_dim) {}  // NOLINT: as in torch::nn

  /// Width E of input and output.
  ATTEND_ARG(int64_t, embed_dim);
  /// Hidden width F; 4*E if not set. With a gated activation, `up` has 2F outputs instead of F. A
  /// gated layer with 2/3 of the hidden width of a layer without a gate has about as many
  /// parameters as that layer (Shazeer 2020).
  ATTEND_ARG(std::optional<int64_t>, dim_feedforward);
  /// Activation between the projections.
  ATTEND_ARG(FeedForwardActivation, activation) = Activation::gelu;
  /// If true, the projections have a bias.
  ATTEND_ARG(bool, bias) = true;
  /// Dropout probability after the activation.
  ATTEND_ARG(double, dropout) = 0.0;
};

/// Position-wise feed-forward layer (Vaswani et al. 2017, section 3.3): two projections with an
/// activation between them. With a gated activation, the projection `up` has 2F outputs; the
/// first F are the gate.
///
/// State dict: `up` (F, E), or (2F, E) if the activation is gated, and `down` (E, F); each a
/// Linear.
///
///     FeedForward feed_forward(FeedForwardOptions(64));
///     auto y = feed_forward(x);  // (B, T, 64) -> (B, T, 64)
class ATTEND_API FeedForwardImpl : public Cloneable<FeedForwardImpl> {
 public:
  /// Throws c10::ValueError if an option is out of range.
  explicit FeedForwardImpl(const FeedForwardOptions& options);

  /// `x` (..., T, E); returns a tensor of the same shape. Throws c10::ValueError if the width is
  /// not E.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  FeedForwardOptions options;           ///< options passed to the constructor
  torch::nn::Linear up{nullptr};        ///< E -> F, or 2F if gated
  torch::nn::Linear down{nullptr};      ///< F -> E
  torch::nn::Dropout dropout{nullptr};  ///< after the activation
};
TORCH_MODULE(FeedForward);

}  // namespace attend
