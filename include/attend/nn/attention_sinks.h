#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Gives each head a learned score that takes part in the softmax but has no value, so that a query
/// need not attend to anything (gpt-oss). It begins as 0, the score of a key of zeros, which makes
/// the softmax that of Miller 2023, 'Attention Is Off By One'.
///
/// State dict: `logits` (H).
///
///     AttentionSinks sinks(8);
class ATTEND_API AttentionSinksImpl : public torch::nn::Cloneable<AttentionSinksImpl>,
                                      public AttentionHook {
 public:
  explicit AttentionSinksImpl(int64_t num_heads);

  void before_attention(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t num_heads;
  torch::Tensor logits;
};
TORCH_MODULE(AttentionSinks);

/// Makes an `AttentionSinks`: `.add(attention_sinks())`.
ATTEND_API AttentionHookFactory attention_sinks();

}  // namespace attend
