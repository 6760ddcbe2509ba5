#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Mixes the values of a stack's first layer into those of each layer above, in a learned
/// proportion that begins as one half: own + mix * (first - own) (Zhou et al. 2024). In the first
/// layer it only leaves the values in `ForwardState::first_values`, for that tensor to reach the
/// others.
///
/// State dict: `mix` ().
///
///     ValueResidual residual;
class ATTEND_API ValueResidualImpl : public torch::nn::Cloneable<ValueResidualImpl>,
                                     public AttentionHook {
 public:
  ValueResidualImpl();

  /// Throws c10::ValueError outside a stack, and if the first layer's values have another shape.
  void after_projection(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  torch::Tensor mix;
};
TORCH_MODULE(ValueResidual);

/// Makes a `ValueResidual`: `.add(value_residual())`.
ATTEND_API AttentionHookFactory value_residual();

}  // namespace attend
