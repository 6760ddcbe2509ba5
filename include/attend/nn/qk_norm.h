#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/module_factory.h"
#include "attend/nn/norms.h"

#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Attention hook for query-key normalization: normalizes the query and key vectors (D) of each
/// head. This bounds the scores (Henry et al. 2020; Dehghani et al. 2023). Add `qk_norm` before
/// `rotary`.
///
/// State dict: `query` and `key`, norms of width D, shared by all heads.
///
///     MultiheadAttentionOptions(64, 4).add(qk_norm()).add(rotary());  // as in Qwen3
class ATTEND_API QKNormImpl : public Cloneable<QKNormImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError if `head_dim` is not positive, if `norm` is empty, or if `norm` returns
  /// an empty module.
  QKNormImpl(int64_t head_dim, ModuleFactory norm);

  /// Normalizes queries and keys.
  void after_projection(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t head_dim;            ///< width D of each head
  ModuleFactory norm;          ///< factory of both norms
  torch::nn::AnyModule query;  ///< norm of the queries
  torch::nn::AnyModule key;    ///< norm of the keys
};
TORCH_MODULE(QKNorm);

/// Returns a factory of `QKNorm`. The name of the submodule is `qk_norm`.
///
///     options.attention().add(qk_norm(l2_norm()));
ATTEND_API AttentionHookFactory qk_norm(ModuleFactory norm = rms_norm());

}  // namespace attend
