#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Lets a query see only keys less than `size` steps away, itself included (Mistral 7B, Jiang et
/// al. 2023). A call's own window, if it is narrower, still holds.
///
///     SlidingWindow window(128);
class ATTEND_API SlidingWindowImpl : public torch::nn::Cloneable<SlidingWindowImpl>,
                                     public AttentionHook {
 public:
  /// Throws c10::ValueError unless `size` is positive.
  explicit SlidingWindowImpl(int64_t sliding_window);

  void before_attention(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t sliding_window;
};
TORCH_MODULE(SlidingWindow);

/// Makes a `SlidingWindow`: `.add(sliding_window(128))`.
ATTEND_API AttentionHookFactory sliding_window(int64_t sliding_window);

}  // namespace attend
