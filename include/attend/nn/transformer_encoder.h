#pragma once

#include "attend/api.h"
#include "attend/nn/transformer_block.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `TransformerEncoder`; those of its blocks are nested.
///
///     TransformerEncoderOptions(TransformerBlockOptions(64, 4), 6).gradient_checkpointing(true)
struct TransformerEncoderOptions {
  TransformerEncoderOptions(const TransformerBlockOptions& block, int64_t num_layers)
      : block_(block), num_layers_(num_layers) {}

  /// Of each block. Its `stochastic_depth` is that of the last block; it grows evenly from the
  /// first (Huang et al. 2016).
  TORCH_ARG(TransformerBlockOptions, block);
  /// Number of blocks L; 0 leaves the final norm.
  TORCH_ARG(int64_t, num_layers);
  /// Whether a norm of the blocks' kind follows the last of them.
  TORCH_ARG(bool, final_norm) = true;
  /// Whether to gradient_checkpointing each block in the backward pass instead of keeping its
  /// activations: less memory for a third more time. See `checkpoint`. Not with experts, whose
  /// balance loss would be lost, nor with value residuals, which tie the blocks together.
  TORCH_ARG(bool, gradient_checkpointing) = false;
};

/// A stack of transformer blocks: an encoder (Vaswani et al. 2017) or, called with `.causal =
/// true`, the decoder of a language model such as GPT-2.
///
/// State dict: `blocks.0` .. `blocks.L-1` (TransformerBlock) and `norm`.
///
///     TransformerEncoder encoder(TransformerEncoderOptions(TransformerBlockOptions(64, 4), 6));
///     auto y = encoder->forward(x, {.key_mask = valid});  // (B, T, 64) -> (B, T, 64)
class ATTEND_API TransformerEncoderImpl : public torch::nn::Cloneable<TransformerEncoderImpl> {
 public:
  explicit TransformerEncoderImpl(const TransformerEncoderOptions& options);

  /// `x` (B, T, E) or (T, E), returns the same shape; `args` hold for each block. Of `state` only
  /// the cache is used. Throws c10::ValueError if the width is not E.
  torch::Tensor forward(const torch::Tensor& x, const AttentionArgs& args = {},
                        const ForwardState& state = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  TransformerEncoderOptions options;
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::AnyModule norm;  ///< empty if there is no final norm

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())},
                           {2, torch::nn::AnyValue(ForwardState())})
};
TORCH_MODULE(TransformerEncoder);

}  // namespace attend
