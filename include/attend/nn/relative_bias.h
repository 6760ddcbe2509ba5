#pragma once

#include "attend/api.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"
#include "attend/ops/relative_buckets.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `RelativeBias`.
///
///     relative_bias({.num_buckets = 16, .bidirectional = false});
using RelativeBiasOptions = RelativeBucketOptions;

/// Attention hook for T5's relative position bias (Raffel et al. 2020): adds learned biases to the
/// scores, one for each head and bucket of relative positions. Each layer has its own table of
/// biases. In T5, all layers share the first layer's table: see `shared_relative_bias`. T5 does not
/// scale the scores: for T5, also set `.scale(kUnscaled)`.
///
/// State dict: `bias.weight` (num_buckets, H), initialized from a normal distribution with std
/// 1/sqrt(E) as in Hugging Face transformers; no entry if the layer uses the first layer's table.
///
/// Throws c10::ValueError in cross-attention, because positions in two different sequences cannot
/// be compared.
///
///     MultiheadAttentionOptions(64, 4).add(relative_bias()).scale(kUnscaled);
class ATTEND_API RelativeBiasImpl : public Cloneable<RelativeBiasImpl>,
                                    public AttentionHook,
                                    public OffsetBias {
 public:
  /// `use_first`: if true, the hook uses the table of the stack's first layer. Throws
  /// c10::ValueError if the options are out of range.
  explicit RelativeBiasImpl(const AttentionDims& dims, const RelativeBiasOptions& options = {},
                            bool use_first = false);

  /// Adds this hook to `context.offset_biases`, so that the attention adds the bias to the scores.
  /// Adding the bias throws c10::ValueError if `use_first` is set, but the first layer has no table
  /// or a table of another shape.
  void before_attention(AttentionContext& context) override;
  torch::Tensor bias_of(const torch::Tensor& offsets, const AttentionContext& context) override;
  void add_bias(AttentionContext& context) override;
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  AttentionDims dims;                  ///< dimensions of the attention
  RelativeBiasOptions options;         ///< options passed to the constructor
  bool use_first;                      ///< true: uses the table of the stack's first layer
  torch::nn::Embedding bias{nullptr};  ///< bias of each bucket and head; empty if `use_first`

 private:
  torch::Tensor table(const ForwardState& state) const;
};
TORCH_MODULE(RelativeBias);

/// Returns a factory of `RelativeBias`. The name of the submodule is `relative_bias`.
///
///     options.attention().add(relative_bias({.bidirectional = false}));
ATTEND_API AttentionHookFactory relative_bias(const RelativeBiasOptions& options = {});

/// Returns a factory of `RelativeBias` hooks that use the table of the stack's first layer (T5).
/// Add it to all layers except the first layer, which must have `relative_bias` with the same
/// options. The name of the submodule is also `relative_bias`.
///
///     TransformerEncoderOptions stack(TransformerBlockOptions(64, 4), 6);
///     stack.per_layer([](int64_t layer, TransformerBlockOptions& block) {
///       block.attention().add(layer == 0 ? relative_bias() : shared_relative_bias());
///     });
ATTEND_API AttentionHookFactory shared_relative_bias(const RelativeBiasOptions& options = {});

}  // namespace attend
