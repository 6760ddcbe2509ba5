#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// Attention hook for value residual learning (Zhou et al. 2024): replaces the values of each layer
/// by value + mix * (first - value), where `first` are the values of the stack's first layer and
/// `mix` is learned, initially 1/2. In the first layer, the values are not changed, only stored in
/// `ForwardState::first_values`.
///
/// State dict: `mix` ().
///
///     MultiheadAttentionOptions(64, 4).add(value_residual());
class ATTEND_API ValueResidualImpl : public Cloneable<ValueResidualImpl>, public AttentionHook {
 public:
  /// Initializes `mix` to 1/2.
  ValueResidualImpl();

  /// Interpolates the values. Throws c10::ValueError if the attention is not in a stack, or if the
  /// values of the first layer have another shape.
  void after_projection(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  torch::Tensor mix;  ///< ()
};
TORCH_MODULE(ValueResidual);

/// Returns a factory of `ValueResidual`. The name of the submodule is `value_residual`.
///
///     options.attention().add(value_residual());
ATTEND_API AttentionHookFactory value_residual();

}  // namespace attend
