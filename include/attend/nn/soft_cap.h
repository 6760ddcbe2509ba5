#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Bounds the scores smoothly to +-cap: cap * tanh(score / cap), before masks (Gemma 2).
///
///     SoftCap soft_cap(50.0);
class ATTEND_API SoftCapImpl : public torch::nn::Cloneable<SoftCapImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError unless `cap` is positive.
  explicit SoftCapImpl(double soft_cap);

  void before_attention(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  double soft_cap;
};
TORCH_MODULE(SoftCap);

/// Makes a `SoftCap`: `.add(soft_cap(50.0))`.
ATTEND_API AttentionHookFactory soft_cap(double soft_cap);

}  // namespace attend
