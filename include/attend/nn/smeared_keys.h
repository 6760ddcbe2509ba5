#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Mixes into each key the one before it, in a learned share for each head of keys: what stood
/// before a token can then be asked for in one layer, where plain attention needs a layer to note
/// it and a second one to find it (Olsson et al. 2022, "In-context Learning and Induction Heads").
/// Half of each at the start. The first key, and one whose neighbour is padding or of another
/// document, stays as it is. Beyond a window, one key more is seen.
///
/// Throws c10::ValueError with a `KvCache` that has dropped tokens.
///
/// State dict: `logits` (G), whose sigmoid is the share of the key before.
///
///     SmearedKeys smeared_keys(2);
class ATTEND_API SmearedKeysImpl : public torch::nn::Cloneable<SmearedKeysImpl>,
                                   public AttentionHook {
 public:
  explicit SmearedKeysImpl(int64_t num_kv_heads);

  void before_attention(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t num_kv_heads;
  torch::Tensor logits;
};
TORCH_MODULE(SmearedKeys);

/// Makes a `SmearedKeys`: `.add(smeared_keys())`.
ATTEND_API AttentionHookFactory smeared_keys();

}  // namespace attend
