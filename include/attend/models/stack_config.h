#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/module_ref.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/token_embedding.h"
#include "attend/nn/transformer_decoder.h"
#include "attend/nn/transformer_encoder.h"
#include "attend/ops/rotary.h"

#include <algorithm>
#include <vector>

namespace attend {

/// Position encoding of a model.
enum class PositionScheme {
  none,  ///< no position encoding; without a causal mask, attention is then permutation-equivariant
  learned,     ///< learned absolute position embeddings, added to the token embeddings (GPT-2)
  sinusoidal,  ///< fixed sinusoidal embeddings, added to the token embeddings (Vaswani et al. 2017)
  rotary,      ///< rotary position embeddings, RoPE (Su et al. 2021)
  alibi,       ///< ALiBi: linear bias of the scores by distance (Press et al. 2022)
  relative,    ///< learned bias of the scores by bucketed relative position (T5)
};

/// Normalization layer of the blocks.
enum class NormKind {
  layer,  ///< LayerNorm
  rms,    ///< RMSNorm
};

/// Normalization of queries and keys before their dot product (QK-norm).
enum class QKNormKind {
  none,  ///< off
  rms,   ///< RMSNorm over head_dim
  l2,    ///< L2 normalization, times a learned scale
};

/// Learned scale of the output of each residual branch.
enum class BranchScale {
  none,         ///< off
  layer_scale,  ///< a factor per channel, initially 1e-5 (LayerScale)
  rezero,       ///< a factor per branch, initially 0 (ReZero)
};

/// Weight initialization of a model.
enum class Initialization {
  gpt2,    ///< normal distribution, as in GPT-2 (Radford et al. 2019); see `initialize_gpt2`
  xavier,  ///< Xavier uniform, as in PyTorch's Transformer
  bloem,   ///< LibTorch's default of each layer, as in Bloem's "Transformers from scratch"
};

/// Configuration of the transformer blocks of a model; the field `stack` of each model's config.
///
///     StackConfig{.num_layers = 4, .num_heads = 4, .embed_dim = 128,
///                 .positions = PositionScheme::rotary}
struct StackConfig {
  int64_t num_layers = 2;       ///< transformer blocks L, >= 0
  int64_t num_heads = 4;        ///< attention heads H
  int64_t num_kv_heads = 0;     ///< key-value heads G (grouped-query attention); 0 means num_heads
  int64_t head_dim = 0;         ///< head width D; 0 means embed_dim / num_heads
  int64_t embed_dim = 64;       ///< model width E
  int64_t dim_feedforward = 0;  ///< feed-forward width F; 0 means 4 * embed_dim
  /// Activation of the feed-forward layers: an `Activation` or a function. A recipe file cannot
  /// contain a function.
  FeedForwardActivation activation = Activation::gelu;
  /// Number of experts in each block (mixture of experts). 0 = each block has one feed-forward
  /// layer instead.
  int64_t num_experts = 0;
  int64_t num_experts_per_tok = 2;  ///< number of experts that each token is routed to
  bool norm_topk_prob = true;       ///< see `ExpertsOptions::norm_topk_prob`
  bool bias = true;                 ///< biases in linear layers and norms
  /// If true, the query, key and value projections have biases even if `bias` is false.
  bool qkv_bias = false;

  PositionScheme positions = PositionScheme::learned;  ///< position encoding
  RotaryOptions rotary = {};  ///< rotary positions: frequencies and their scaling
  /// Relative positions: buckets. `bidirectional` is ignored: it is true unless attention is
  /// causal.
  RelativeBiasOptions relative_bias = {};
  bool relative_attention_shared = false;  ///< all layers use the first layer's bias (T5)

  double embedding_scale = 1.0;  ///< factor of the token embeddings, such as sqrt(embed_dim)
  bool embedding_norm = false;   ///< apply a norm to the sum of all embeddings (BERT)

  double attention_scale = 0.0;  ///< factor of the attention scores; 0 means 1/sqrt(head_dim)
  /// Sliding window in tokens: a query may attend only to keys at a distance of less than the
  /// window (1 = only to its own key); 0 = no window.
  int64_t sliding_window = 0;
  /// Sliding windows of consecutive layers, repeated: {4096, 0} alternates a window of 4096 tokens
  /// with full attention (Gemma 2). If empty, all layers have the window `sliding_window`.
  std::vector<int64_t> sliding_window_pattern = {};
  double soft_cap = 0.0;  ///< attention scores are soft_cap * tanh(score / soft_cap); 0 = off
  QKNormKind qk_norm = QKNormKind::none;  ///< normalization of queries and keys
  bool output_gate = false;               ///< sigmoid gate on the output of each head
  bool attention_sinks = false;           ///< learned extra logit in each head's softmax
  bool value_residual = false;            ///< mix values with the first layer's values
  bool smeared_keys = false;              ///< mix each key with the previous key

  NormKind norm = NormKind::layer;        ///< normalization layer
  double norm_eps = 1e-5;                 ///< epsilon of the norms, including `QKNormKind::rms`
  NormOrder norm_order = NormOrder::pre;  ///< position of the norms in a block
  bool final_norm = true;                 ///< norm after the last block
  BranchScale branch_scale = BranchScale::none;  ///< learned scale of residual branches
  double residual_scale = 1.0;                   ///< constant scale of residual branches
  /// Dropout probability. Dropout is applied to the attention weights, the activations in
  /// feed-forward layers, the outputs of residual branches, and the embeddings.
  double dropout = 0.0;
  /// Stochastic depth: the probability of dropping a residual branch in training. The probability
  /// grows linearly with depth; this field is the probability of the last block.
  double stochastic_depth = 0.0;
  bool gradient_checkpointing = false;  ///< recompute activations in backward to save memory
  Initialization initialization = Initialization::gpt2;  ///< weight initialization

  /// Returns a number of tensors that each model with this stack exceeds: one for each layer and
  /// expert. Compare it with the tensors of a file before making a model of its config: a million
  /// modules need gigabytes.
  int64_t min_tensors() const { return num_layers * std::max<int64_t>(num_experts, 1); }
};

/// Returns the options of a stack: `config.num_layers` blocks with self-attention, then a final
/// norm if `config.final_norm` is set. Set `causal` if the blocks are always called with a causal
/// mask; T5's relative bias is then unidirectional. Throws c10::ValueError if a field is out of
/// range, or if a field is set but has no effect, such as `rotary` without rotary positions.
ATTEND_API TransformerEncoderOptions encoder_options(const StackConfig& config, bool causal);

/// Returns the options of a stack: `num_layers` blocks with causal self-attention and
/// cross-attention, then a final norm if `config.final_norm` is set. Throws c10::ValueError in the
/// same cases as `encoder_options`.
ATTEND_API TransformerDecoderOptions decoder_options(const StackConfig& config, int64_t num_layers);

/// Returns the options of the token embedding, including learned or sinusoidal positions and the
/// embedding norm.
ATTEND_API TokenEmbeddingOptions embedding_options(const StackConfig& config, int64_t vocab_size,
                                                   int64_t max_seq_len);

/// Returns the options of a KV cache for the self-attention of `num_layers` blocks. The cache holds
/// `batch_size` sequences of up to `max_seq_len` tokens. If all layers have a sliding window of at
/// most `max_seq_len` and positions are not learned, the cache overwrites old tokens. Sequences may
/// then have any length, and each call of the model may add up to `max_seq_len` tokens.
ATTEND_API KvCacheOptions cache_options(const StackConfig& config, int64_t num_layers,
                                        int64_t batch_size, int64_t max_seq_len);

/// Initializes the weights of `model` in place with `config.initialization`.
ATTEND_API void initialize(ModuleRef model, const StackConfig& config);

/// Names of the `PositionScheme` values in recipe files and flags.
template <>
struct EnumNames<PositionScheme> {
  static constexpr std::array<std::string_view, 6> names{"none",   "learned", "sinusoidal",
                                                         "rotary", "alibi",   "relative"};
};
/// Names of the `NormKind` values in recipe files and flags.
template <>
struct EnumNames<NormKind> {
  static constexpr std::array<std::string_view, 2> names{"layer", "rms"};
};
/// Names of the `QKNormKind` values in recipe files and flags.
template <>
struct EnumNames<QKNormKind> {
  static constexpr std::array<std::string_view, 3> names{"none", "rms", "l2"};
};
/// Names of the `BranchScale` values in recipe files and flags.
template <>
struct EnumNames<BranchScale> {
  static constexpr std::array<std::string_view, 3> names{"none", "layer_scale", "rezero"};
};
/// Names of the `Initialization` values in recipe files and flags.
template <>
struct EnumNames<Initialization> {
  static constexpr std::array<std::string_view, 3> names{"gpt2", "xavier", "bloem"};
};

}  // namespace attend
