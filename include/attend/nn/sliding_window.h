#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// Attention hook for sliding window attention (Mistral 7B, Jiang et al. 2023): a query may attend
/// only to keys at a distance of less than `sliding_window` tokens. If the call also sets
/// `AttentionArgs::sliding_window`, the smaller window applies.
///
/// Throws c10::ValueError in cross-attention, because positions in two different sequences cannot
/// be compared.
///
///     MultiheadAttentionOptions(64, 4).add(sliding_window(128));
class ATTEND_API SlidingWindowImpl : public Cloneable<SlidingWindowImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError if `sliding_window` is not positive.
  explicit SlidingWindowImpl(int64_t sliding_window);

  /// Sets `AttentionArgs::sliding_window`.
  void before_attention(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t sliding_window;  ///< window in tokens
};
TORCH_MODULE(SlidingWindow);

/// Returns a factory of `SlidingWindow`. The name of the submodule is `sliding_window`.
///
///     options.attention().add(sliding_window(128));
ATTEND_API AttentionHookFactory sliding_window(int64_t sliding_window);

}  // namespace attend
