#pragma once

#include "attend/nn/token_embedding.h"
#include "attend/nn/transformer_block.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

// Inline: attend::LanguageModel and attend::models::LanguageModel are the same name.
namespace attend::inline models {

/// All that a `LanguageModel` is made of.
///
///     LanguageModelConfig{.vocab_size = 65, .context = 64, .layers = 4, .heads = 4}
struct LanguageModelConfig {
  int64_t vocab_size = 0;  ///< number of tokens V; must be set
  int64_t context = 64;    ///< longest sequence, in tokens
  int64_t layers = 2;      ///< transformer blocks L; 0 leaves embedding, norm and head
  int64_t heads = 4;       ///< attention heads H in a block
  int64_t embed_dim = 64;  ///< width E
  int64_t ff_dim = 0;      ///< feed-forward width F; 0 means 4*E
  double dropout = 0.0;    ///< in attention, feed-forward, residual branches and embedding
  bool bias = true;        ///< in the projections of the blocks
  bool tied = true;        ///< the head uses the token embedding's weight
  Positions positions = Positions::learned;
  NormOrder norm_order = NormOrder::pre;
  Activation activation = Activation::gelu;
};

/// A decoder-only language model (Radford et al. 2019, GPT-2): token embedding with positions,
/// causal transformer blocks, a final layer norm, and a head that scores each next token.
/// Initialised as GPT-2: weights from N(0, 0.02), biases 0, and the projections that end a residual
/// branch from N(0, 0.02 / sqrt(2L)).
///
/// State dict: `embedding` (TokenEmbedding), `blocks.0` .. `blocks.L-1` (TransformerBlock), `norm`
/// (LayerNorm) and, unless tied, `head.weight` (V, E).
///
///     LanguageModel model(LanguageModelConfig{.vocab_size = 65});
///     auto logits = model(tokens);  // (B, T) -> (B, T, 65)
class LanguageModelImpl : public torch::nn::Cloneable<LanguageModelImpl> {
 public:
  explicit LanguageModelImpl(const LanguageModelConfig& config);

  /// `tokens` (B, T) or (T), int64 in 0 .. V-1, T at most `context`; returns the logits
  /// (..., T, V): at each position the scores of the token that follows.
  torch::Tensor forward(const torch::Tensor& tokens);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  LanguageModelConfig config;
  TokenEmbedding embedding{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};  ///< empty when tied
};
TORCH_MODULE(LanguageModel);

}  // namespace attend::inline models
