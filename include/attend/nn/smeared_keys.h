#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// Attention hook for smeared keys (Olsson et al. 2022, "In-context Learning and Induction Heads"):
/// interpolates each key with the previous key, with a learned weight per key-value head, so that
/// one layer suffices for an induction head. A key is unchanged if it is the first, or if the
/// previous key is padding or belongs to another segment. The first key of a sliding window is
/// interpolated with the key before the window.
///
/// The `sliding_window` of a `KvCache`, if set, must therefore be at least W + 1, where W is the
/// sliding window of the attention. Otherwise, throws c10::ValueError.
///
/// State dict: `logits` (G), whose sigmoid is the weight of the previous key, initially 1/2.
///
///     MultiheadAttentionOptions(64, 4).add(smeared_keys());
class ATTEND_API SmearedKeysImpl : public Cloneable<SmearedKeysImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError if `num_kv_heads` is not positive.
  explicit SmearedKeysImpl(int64_t num_kv_heads);

  /// Interpolates the keys.
  void before_attention(AttentionContext& context) override;
  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t num_kv_heads;  ///< number of key-value heads G
  torch::Tensor logits;  ///< (G)
};
TORCH_MODULE(SmearedKeys);

/// Returns a factory of `SmearedKeys`. The name of the submodule is `smeared_keys`.
///
///     options.attention().add(smeared_keys());
ATTEND_API AttentionHookFactory smeared_keys();

}  // namespace attend
