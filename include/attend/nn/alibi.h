#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/constant.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// Attention hook for ALiBi, attention with linear biases (Press et al. 2022): subtracts
/// `slope * |query position - key position|` from the scores, with a fixed slope per head
/// (`alibi_slopes`). A model with ALiBi can process sequences longer than those that it was trained
/// on. No parameters.
///
/// Throws c10::ValueError in cross-attention, because positions in two different sequences cannot
/// be compared.
///
///     MultiheadAttentionOptions(64, 4).add(alibi());
class ATTEND_API AlibiImpl : public Cloneable<AlibiImpl>, public AttentionHook, public OffsetBias {
 public:
  /// Throws c10::ValueError if `num_heads` is not positive.
  explicit AlibiImpl(int64_t num_heads);

  /// Adds this hook to `context.offset_biases`, so that the attention adds the bias to the scores.
  void before_attention(AttentionContext& context) override;
  torch::Tensor bias_of(const torch::Tensor& offsets, const AttentionContext& context) override;
  void add_bias(AttentionContext& context) override;
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t num_heads;  ///< number of heads H

 private:
  Constant slopes_;
};
TORCH_MODULE(Alibi);

/// Returns a factory of `Alibi`. The name of the submodule is `alibi`.
///
///     options.attention().add(alibi());
ATTEND_API AttentionHookFactory alibi();

}  // namespace attend
