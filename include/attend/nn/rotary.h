#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/constant.h"
#include "attend/ops/rotary.h"

#include <torch/nn/pimpl.h>

#include <vector>

namespace attend {

/// Attention hook for rotary position embeddings, RoPE (Su et al. 2021): rotates queries and keys
/// by angles proportional to their positions, so that a score depends on the relative position.
/// The positions are `AttentionArgs::positions`, or 0, 1, ... if not set. A `KvCache` sets
/// `AttentionArgs::positions` itself. If `AttentionArgs::key_positions` is set, the keys have these
/// positions instead. `Rotary` has no parameters.
///
/// Throws c10::ValueError in cross-attention, because positions in two different sequences cannot
/// be compared.
///
///     MultiheadAttentionOptions(64, 4).add(rotary());
///     MultiheadAttentionOptions(64, 4).add(rotary({.theta = 500000.0, .rotary_dim = 8}));
class ATTEND_API RotaryImpl : public Cloneable<RotaryImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError if the options are invalid for `head_dim` or contradict each other.
  explicit RotaryImpl(int64_t head_dim, const RotaryOptions& options = {});

  /// Rotates queries and keys.
  void after_projection(AttentionContext& context) override;
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  /// Returns `rotary_frequencies(head_dim, options)`.
  const std::vector<double>& frequencies() const { return numbers_; }

  int64_t head_dim;       ///< width D of each head
  RotaryOptions options;  ///< options passed to the constructor

 private:
  RotaryTables shared_tables(const AttentionContext& context, const torch::Tensor& positions,
                             const torch::Tensor& x);

  Constant frequencies_;
  std::vector<double> numbers_;  // as `frequencies_`
};
TORCH_MODULE(Rotary);

/// Returns a factory of `Rotary`. The name of the submodule is `rotary`.
///
///     options.attention().add(rotary({.theta = 500000.0}));
ATTEND_API AttentionHookFactory rotary(const RotaryOptions& options = {});

}  // namespace attend
