#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Scaling of the rotary frequencies, for sequences longer than in training.
enum class RotaryScaling {
  none,    ///< no scaling
  linear,  ///< position interpolation: divides all frequencies by `factor` (Chen et al. 2023)
  ntk,     ///< NTK-aware: increases theta so that the lowest frequency is divided by `factor`
  /// Divides low frequencies by `factor` and leaves high frequencies unchanged, with a linear ramp
  /// between them (Peng et al. 2023).
  yarn,
  llama3,  ///< like yarn, but with the ramp of Llama 3.1 and without attention scaling
};

template <>
struct EnumNames<RotaryScaling> {
  static constexpr std::array<std::string_view, 5> names{"none", "linear", "ntk", "yarn", "llama3"};
};

/// Options of rotary position embeddings.
///
///     rotary({.theta = 500000.0, .scaling = RotaryScaling::llama3, .factor = 8.0,
///             .original_max_seq_len = 8192})  // Llama 3.1
struct RotaryOptions {
  /// Base of the frequencies: channel pair i rotates by theta^(-2i / rotary_dim) radians per token.
  double theta = 10000.0;
  /// Number of channels per head that are rotated; must be even. 0 = all channels. The remaining
  /// channels are unchanged, as in GPT-NeoX and Phi.
  int64_t rotary_dim = 0;
  /// Selects the two channels of pair i. If false: channels i and i + rotary_dim / 2 (GPT-NeoX,
  /// Llama). If true: channels 2i and 2i + 1 (Su et al. 2021, GPT-J).
  bool interleaved = false;
  /// Scaling of the frequencies for longer sequences.
  RotaryScaling scaling = RotaryScaling::none;
  /// Scaling factor, at least 1: the ratio of the new to the original maximum sequence length.
  double factor = 1.0;
  /// yarn, llama3: maximum sequence length that the model was trained with before scaling.
  int64_t original_max_seq_len = 0;
  /// yarn: the frequency of a channel pair is not scaled if the pair makes more than this number of
  /// rotations in `original_max_seq_len` tokens.
  double beta_fast = 32.0;
  /// yarn: the frequency of a channel pair is divided by `factor` if the pair makes fewer than this
  /// number of rotations in `original_max_seq_len` tokens.
  double beta_slow = 1.0;
  /// yarn: if true, the ramp is widened so that it begins and ends at integer indices of channel
  /// pairs. gpt-oss uses false.
  bool truncate = true;
  /// yarn: attention scaling, by which cos and sin are multiplied. If this option is 0, the
  /// attention scaling is `0.1 * ln(factor) + 1`.
  double attention_factor = 0.0;
  /// llama3: the frequency of a channel pair is divided by `factor` if the pair makes fewer than
  /// this number of rotations in `original_max_seq_len` tokens.
  double low_freq_factor = 1.0;
  /// llama3: the frequency of a channel pair is not scaled if the pair makes more than this number
  /// of rotations in `original_max_seq_len` tokens.
  double high_freq_factor = 4.0;

  bool operator==(const RotaryOptions&) const = default;
};

/// Returns the frequency of each pair of channels in radians per token: rotary_dim / 2 numbers in
/// descending order. Without scaling they are theta^(-2i / rotary_dim). Throws c10::ValueError if
/// the options are invalid for `head_dim` or contradict each other.
///
///     rotary_frequencies(4);  // {1, 0.01}
ATTEND_API std::vector<double> rotary_frequencies(int64_t head_dim,
                                                  const RotaryOptions& options = {});

/// Returns the factor by which cos and sin are multiplied: the attention scaling of YaRN; 1
/// without YaRN.
///
///     rotary_attention_scaling({.scaling = RotaryScaling::yarn, .factor = 4.0});  // 1.139
ATTEND_API double rotary_attention_scaling(const RotaryOptions& options);

/// Cosines and sines of the rotary angles. R is the number of channels that are rotated.
struct RotaryTables {
  torch::Tensor cos;  ///< (T, R/2) or (B, T, R/2)
  torch::Tensor sin;  ///< shape of `cos`
};

/// Returns the tables for `positions` (T) or (B, T), in tokens. The positions are converted to the
/// dtype of `frequencies` (R/2), and the tables have this dtype. Use float32 or float64, since
/// float16 and bfloat16 cannot represent large positions exactly. cos and sin are multiplied by
/// `attention_scaling`.
///
///     auto tables = rotary_tables(positions_like(q, -2), torch::tensor(rotary_frequencies(64)));
ATTEND_API RotaryTables rotary_tables(const torch::Tensor& positions,
                                      const torch::Tensor& frequencies,
                                      double attention_scaling = 1.0);

/// Rotates the first R channels of `x` (..., T, D), or (B, ..., T, D) if the tables have a batch
/// dimension, and returns a tensor with the shape and dtype of `x`. `interleaved`: see
/// `RotaryOptions`. Throws c10::ValueError or c10::TypeError if shapes or dtypes do not match.
///
///     q = apply_rotary(q, tables);
ATTEND_API torch::Tensor apply_rotary(const torch::Tensor& x, const RotaryTables& tables,
                                      bool interleaved = false);

/// Rotary position embedding (Su et al. 2021): rotates pairs of channels of `x` (..., T, D) by
/// angles proportional to `positions` (T) or (B, T), in tokens, so that the dot product of two
/// rotated vectors depends on their relative position only. Returns a tensor with the shape and
/// dtype of `x`.
///
/// Throws c10::ValueError or c10::TypeError if shapes or dtypes do not match or an option is
/// invalid.
///
///     auto q = apply_rotary(query, positions_like(query, -2));  // (B, H, T, D)
ATTEND_API torch::Tensor apply_rotary(const torch::Tensor& x, const torch::Tensor& positions,
                                      const RotaryOptions& options = {});

}  // namespace attend
