#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/module_factory.h"
#include "attend/nn/norms.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Norms each head's queries and keys over the head's width, so that the scores stay bounded
/// however the projections grow (Henry et al. 2020; Dehghani et al. 2023). Added before rotary
/// positions.
///
/// State dict: `query` and `key`, a norm of width D each, the same for all heads.
///
///     QKNorm norm(16, rms_norm());
class ATTEND_API QKNormImpl : public torch::nn::Cloneable<QKNormImpl>, public AttentionHook {
 public:
  QKNormImpl(int64_t head_dim, ModuleFactory norm);

  void after_projection(AttentionContext& context) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t head_dim;
  ModuleFactory norm;
  torch::nn::AnyModule query;
  torch::nn::AnyModule key;
};
TORCH_MODULE(QKNorm);

/// Makes a `QKNorm`: `.add(qk_norm()).add(rotary())`, as in Qwen3.
ATTEND_API AttentionHookFactory qk_norm(ModuleFactory norm = rms_norm());

}  // namespace attend
