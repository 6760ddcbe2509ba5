#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/constant.h"
#include "attend/ops/rotary.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Rotary positions (Su et al. 2021) as a part of attention: turns each head's queries and keys by
/// angles that grow with their positions, those of the call or 0, 1, ..., so that a score depends
/// on the distance of query and key. It has no parameters.
///
/// The constructor throws c10::ValueError for options that do not fit `head_dim` or one another;
/// cross-attention throws it too, since the two sequences have no common positions.
///
///     MultiheadAttentionOptions(64, 4).add(rotary())
///     MultiheadAttentionOptions(64, 4).add(rotary({.theta = 500000.0, .rotary_dim = 8}))
class ATTEND_API RotaryImpl : public torch::nn::Cloneable<RotaryImpl>, public AttentionHook {
 public:
  explicit RotaryImpl(int64_t head_dim, const RotaryOptions& options = {});

  void after_projection(AttentionContext& context) override;
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t head_dim;
  RotaryOptions options;

 private:
  Constant frequencies_;
};
TORCH_MODULE(Rotary);

/// Makes a `Rotary`, registered as `rotary`.
ATTEND_API AttentionHookFactory rotary(const RotaryOptions& options = {});

}  // namespace attend
