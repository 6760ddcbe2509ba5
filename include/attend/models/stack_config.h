#pragma once

#include "attend/enum_names.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/token_embedding.h"
#include "attend/nn/transformer_decoder.h"
#include "attend/nn/transformer_encoder.h"
#include "attend/ops/rotary.h"

namespace attend {

/// How a model knows the order of its tokens.
enum class PositionScheme {
  none,        ///< not at all: attention then sees a set, not a sequence
  learned,     ///< a vector for each position is learned and added to the token's, as in GPT-2
  sinusoidal,  ///< sines and cosines are added, Vaswani et al. 2017
  rotary,      ///< queries and keys are rotated, Su et al. 2021
  alibi,       ///< scores fall with the distance, Press et al. 2022
  relative,    ///< scores get a learned bias by the distance, T5
};

/// The norm of a model's blocks.
enum class NormKind {
  layer,  ///< layer normalisation
  rms,    ///< root-mean-square normalisation
};

/// What is done to queries and keys before their product.
enum class QKNormKind {
  none,
  rms,  ///< an RMSNorm each
  l2,   ///< length 1, times a learned number
};

/// What the result of a residual branch is multiplied by.
enum class BranchScaling {
  none,
  layer_scale,  ///< a learned number for each channel, from 1e-5
  rezero,       ///< one learned number, from 0
};

/// Where a model's weights begin.
enum class Initialization {
  gpt2,    ///< normal, branches scaled by the depth: Radford et al. 2019
  xavier,  ///< uniform by the sizes of each matrix, as in PyTorch's Transformer
  bloem,   ///< that of the layers themselves, as in Bloem's text
};

/// All that the transformer blocks of a model are made of; part of each model's config.
///
///     StackConfig{.num_layers = 4, .num_heads = 4, .embed_dim = 128, .positions =
///     PositionScheme::rotary}
struct StackConfig {
  int64_t num_layers = 2;       ///< transformer blocks L; 0 leaves embedding, norm and head
  int64_t num_heads = 4;        ///< attention heads H in a block
  int64_t num_kv_heads = 0;     ///< heads of keys and values; 0 = as many as heads
  int64_t head_dim = 0;         ///< width D of a head; 0 = E/H
  int64_t embed_dim = 64;       ///< width E
  int64_t dim_feedforward = 0;  ///< feed-forward width F; 0 = 4*E
  Activation activation = Activation::gelu;
  int64_t num_experts = 0;  ///< feed-forwards that tokens are routed to; 0 = one, no routing
  int64_t num_experts_per_tok = 2;  ///< how many of them a token goes through
  bool bias = true;                 ///< in projections and norms

  PositionScheme positions = PositionScheme::learned;
  double rotary_theta = 10000.0;  ///< base of the rotary frequencies
  int64_t rotary_dim = 0;         ///< channels of a head that are rotated, an even number; 0 = all
  bool rotary_interleaved = false;
  RotaryScaling rotary_scaling = RotaryScaling::none;
  double rotary_factor = 1.0;  ///< by how much the context is stretched
  int64_t rotary_original_max_seq_len =
      0;  ///< context that the model was trained with, for yarn and llama3

  int64_t relative_attention_num_buckets = 32;    ///< of distances, for relative positions
  int64_t relative_attention_max_distance = 128;  ///< from which on all are in one bucket

  int64_t sliding_window = 0;  ///< a token sees so many, itself included; 0 = all
  double soft_cap = 0.0;       ///< bound of the attention scores; 0 = none
  QKNormKind qk_norm = QKNormKind::none;
  bool output_gate = false;      ///< a sigmoid gate for each head
  bool attention_sinks = false;  ///< a learned score to attend to nothing, for each head
  bool value_residual = false;   ///< values are mixed with the first layer's
  bool smeared_keys = false;     ///< each key is mixed with the one before it

  NormKind norm = NormKind::layer;
  double norm_eps = 1e-5;  ///< added to the variance or mean square
  NormOrder norm_order = NormOrder::pre;
  BranchScaling branch_scaling = BranchScaling::none;
  double residual_scale = 1.0;    ///< constant factor of a branch's result
  double dropout = 0.0;           ///< in attention, feed-forward, residual branches and embedding
  double stochastic_depth = 0.0;  ///< probability that the last layer's branch is left out
  bool gradient_checkpointing =
      false;  ///< gradient_checkpointing activations in the backward pass: less memory
  Initialization initialization = Initialization::gpt2;
};

/// The options of `config.num_layers` blocks with self-attention, and a final norm. `causal`:
/// whether they will only be called so, as in a language model; it decides which distances T5's
/// bias tells apart.
TransformerEncoderOptions encoder_options(const StackConfig& config, bool causal);

/// The same for causal blocks that have cross-attention, too.
TransformerDecoderOptions decoder_options(const StackConfig& config, int64_t num_layers);

/// The options of a token embedding, with the positions that `config` adds there.
TokenEmbeddingOptions embedding_options(const StackConfig& config, int64_t vocab_size,
                                        int64_t max_seq_len);

/// The options of a cache for the self-attention of `layers` such blocks: `batch` sequences of up
/// to `context` tokens or, if there is a window and positions are not learned, of any number, each
/// call bringing up to `context`.
KvCacheOptions cache_options(const StackConfig& config, int64_t num_layers, int64_t batch_size,
                             int64_t max_seq_len);

/// Gives all weights of `model` the values that `config.initialization` names.
void initialize(torch::nn::Module& model, const StackConfig& config);

}  // namespace attend

namespace attend {

template <>
struct EnumNames<PositionScheme> {
  static constexpr std::array<std::string_view, 6> names{"none",   "learned", "sinusoidal",
                                                         "rotary", "alibi",   "relative"};
};
template <>
struct EnumNames<NormKind> {
  static constexpr std::array<std::string_view, 2> names{"layer", "rms"};
};
template <>
struct EnumNames<QKNormKind> {
  static constexpr std::array<std::string_view, 3> names{"none", "rms", "l2"};
};
template <>
struct EnumNames<BranchScaling> {
  static constexpr std::array<std::string_view, 3> names{"none", "layer_scale", "rezero"};
};
template <>
struct EnumNames<Initialization> {
  static constexpr std::array<std::string_view, 3> names{"gpt2", "xavier", "bloem"};
};

}  // namespace attend
