#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// How rotary positions reach beyond the length that a model was trained on, by turning slower.
enum class RotaryScaling {
  none,
  linear,  ///< all frequencies / factor (Chen et al. 2023, position interpolation)
  ntk,     ///< theta grows so that the slowest frequency is divided by factor, the fastest by 1
  yarn,    ///< slow frequencies / factor, fast ones kept, a ramp between (Peng et al. 2023)
  llama3,  ///< the same with a ramp of another form (Llama 3.1)
};

template <>
struct EnumNames<RotaryScaling> {
  static constexpr std::array<std::string_view, 5> names{"none", "linear", "ntk", "yarn", "llama3"};
};

/// What a model has decided of its rotary positions.
///
///     rotary({.theta = 500000.0, .scaling = RotaryScaling::llama3, .factor = 8.0,
///             .original_max_seq_len = 8192})  // Llama 3.1
struct RotaryOptions {
  /// The greater, the slower the slowest pair of channels turns.
  double theta = 10000.0;
  /// How many channels of a head turn, the first ones, an even number; the others pass as they are
  /// (GPT-NeoX, Phi). 0 = all.
  int64_t rotary_dim = 0;
  /// Which channels turn together: false = i and i + rotary_dim / 2 (GPT-NeoX, Llama), true = 2i
  /// and 2i + 1 (the paper, GPT-J).
  bool interleaved = false;
  RotaryScaling scaling = RotaryScaling::none;
  /// How many times the original context the scaled one is, at least 1.
  double factor = 1.0;
  /// yarn, llama3: the length, in steps, that the model was trained on before it was scaled.
  int64_t original_max_seq_len = 0;
  /// yarn: what turns more often than this over the original context is kept ...
  double beta_fast = 32.0;
  /// ... and what turns less often than this is divided by `factor`.
  double beta_slow = 1.0;
  /// yarn: whether the ramp between begins and ends at whole channels; false in gpt-oss.
  bool truncate = true;
  /// yarn: multiplies what is turned, queries and keys alike; 0 = 0.1 ln(factor) + 1.
  double attention_factor = 0.0;
  /// llama3: what turns less often than this over the original context is divided by `factor` ...
  double low_freq_factor = 1.0;
  /// ... and what turns more often than this is kept.
  double high_freq_factor = 4.0;
};

/// By what angle, in radians, each pair of channels of a head turns at each step: rotary_dim / 2
/// numbers, the fastest first. Without scaling the i-th is theta^(-2i / rotary_dim).
/// Throws c10::ValueError for options that do not fit `head_dim` or one another.
///
///     rotary_frequencies(4);  // {1, 0.01}
ATTEND_API std::vector<double> rotary_frequencies(int64_t head_dim,
                                                  const RotaryOptions& options = {});

/// What rotary positions multiply queries and keys by besides turning them: 1 but for yarn.
ATTEND_API double rotary_attention_scaling(const RotaryOptions& options);

/// The turns of RoPE at some positions, made once for queries and keys.
struct RotaryTables {
  torch::Tensor cos;  ///< (T, R/2) or (B, T, R/2), as the positions were (T) or (B, T)
  torch::Tensor sin;  ///< the same
};

/// The turns at `positions` (T) or (B, T), in steps, with `frequencies` (R/2) in the float type in
/// which angles are to be computed: float32 at least, since a half type cannot tell late positions
/// apart.
ATTEND_API RotaryTables rotary_tables(const torch::Tensor& positions,
                                      const torch::Tensor& frequencies,
                                      double attention_scaling = 1.0);

/// Turns the first R channels of `x` (..., T, D), (B, H, T, D) if the turns differ from row to row;
/// returns the shape and dtype of `x`. Throws c10::ValueError or c10::TypeError for what does not
/// fit.
ATTEND_API torch::Tensor apply_rotary(const torch::Tensor& x, const RotaryTables& tables,
                                      bool interleaved = false);

/// Rotary position embedding (Su et al. 2021): turns pairs of channels of `x` (..., T, D) by angles
/// that grow with `positions` (T) or (B, T), in steps, so that the product of two turned vectors
/// depends on the distance of their positions only. Returns the shape and dtype of `x`.
///
/// Throws c10::ValueError or c10::TypeError for shapes, dtypes and options that do not fit.
///
///     auto q = apply_rotary(query, positions_like(query, -2));  // (B, H, T, D)
ATTEND_API torch::Tensor apply_rotary(const torch::Tensor& x, const torch::Tensor& positions,
                                      const RotaryOptions& options = {});

}  // namespace attend
