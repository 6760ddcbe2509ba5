#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// Attention hook for logit soft-capping (Gemma 2): replaces each score by
/// soft_cap * tanh(score / soft_cap), before masks and biases are applied.
///
///     MultiheadAttentionOptions(64, 4).add(soft_cap(50.0));
class ATTEND_API SoftCapImpl : public Cloneable<SoftCapImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError if `soft_cap` is not positive and finite.
  explicit SoftCapImpl(double soft_cap);

  /// Sets `ScoreOptions::soft_cap`.
  void before_attention(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  double soft_cap;  ///< bound of the scores
};
TORCH_MODULE(SoftCap);

/// Returns a factory of `SoftCap`. The name of the submodule is `soft_cap`.
///
///     options.attention().add(soft_cap(50.0));
ATTEND_API AttentionHookFactory soft_cap(double soft_cap);

}  // namespace attend
