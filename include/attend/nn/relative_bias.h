#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/ops/relative_buckets.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `RelativeBias`: how offsets fall into buckets.
///
///     relative_bias({.num_buckets = 16, .bidirectional = false})
using RelativeBiasOptions = RelativeBucketOptions;

/// T5's relative position bias (Raffel et al. 2020) as a part of attention: a learned number for
/// each head and each bucket of distances is added to the scores. Here each attention learns its
/// own, where T5's first layer lends its to the others. T5 does not scale its scores either:
/// `.scale(kUnscaled)`.
///
/// State dict: `bias.weight` (num_buckets, H), which begins as N(0, 1/E), as in the T5 of Hugging
/// Face transformers.
///
/// The constructor throws c10::ValueError for options that make no buckets; cross-attention throws
/// it too, since the two sequences have no common positions.
///
///     MultiheadAttentionOptions(64, 4).add(relative_bias()).scale(kUnscaled)
class ATTEND_API RelativeBiasImpl : public torch::nn::Cloneable<RelativeBiasImpl>,
                                    public AttentionHook {
 public:
  explicit RelativeBiasImpl(const AttentionDims& shape, const RelativeBiasOptions& options = {});

  void before_attention(AttentionContext& context) override;
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  AttentionDims shape;
  RelativeBiasOptions options;
  torch::nn::Embedding bias{nullptr};
};
TORCH_MODULE(RelativeBias);

/// Makes a `RelativeBias`, registered as `relative_bias`.
ATTEND_API AttentionHookFactory relative_bias(const RelativeBiasOptions& options = {});

}  // namespace attend
