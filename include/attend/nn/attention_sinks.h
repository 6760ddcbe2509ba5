#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// Attention hook for attention sinks (gpt-oss): a learned logit per head takes part in the softmax
/// like the score of a key, but has no value vector, so the attention weights may sum to less than
/// 1. The logits are initially 0, which gives the softmax of Miller 2023, 'Attention Is Off By
/// One'.
///
/// State dict: `logits` (H).
///
///     MultiheadAttentionOptions(64, 4).add(attention_sinks());
class ATTEND_API AttentionSinksImpl : public Cloneable<AttentionSinksImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError if `num_heads` is not positive.
  explicit AttentionSinksImpl(int64_t num_heads);

  /// Sets `ScoreOptions::sinks`.
  void before_attention(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t num_heads;     ///< number of heads H
  torch::Tensor logits;  ///< (H)
};
TORCH_MODULE(AttentionSinks);

/// Returns a factory of `AttentionSinks`. The name of the submodule is `attention_sinks`.
///
///     options.attention().add(attention_sinks());
ATTEND_API AttentionHookFactory attention_sinks();

}  // namespace attend
