#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/constant.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Attention with linear biases (Press et al. 2022) as a part of attention: each head's scores fall
/// with the distance of query and key, by a slope of its own, and models hold at lengths that they
/// were not trained on. It has no parameters.
///
/// Cross-attention throws c10::ValueError, since the two sequences have no common positions.
///
///     MultiheadAttentionOptions(64, 4).add(alibi())
class ATTEND_API AlibiImpl : public torch::nn::Cloneable<AlibiImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError if `num_heads` is not positive.
  explicit AlibiImpl(int64_t num_heads);

  void before_attention(AttentionContext& context) override;
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t num_heads;

 private:
  Constant slopes_;
};
TORCH_MODULE(Alibi);

/// Makes an `Alibi`, registered as `alibi`.
ATTEND_API AttentionHookFactory alibi();

}  // namespace attend
