#include "attend/ops/rotary.h"

#include "ops/math_type.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attend {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

void check_scaling(const RotaryOptions& options) {
  const auto scaling = to_string(options.scaling);
  TORCH_CHECK_VALUE(options.theta > 1.0 && std::isfinite(options.theta), "theta (", options.theta,
                    ") must be finite and greater than 1");
  TORCH_CHECK_VALUE(options.factor >= 1.0 && std::isfinite(options.factor), "factor (",
                    options.factor, ") must be finite and at least 1");
  if (options.scaling == RotaryScaling::none) {
    TORCH_CHECK_VALUE(options.factor == 1.0, "factor (", options.factor,
                      ") must be 1 without scaling");
  }
  if (options.scaling == RotaryScaling::yarn || options.scaling == RotaryScaling::llama3) {
    TORCH_CHECK_VALUE(options.original_max_seq_len > 0, "scaling ", scaling,
                      " requires a positive original_max_seq_len, found ",
                      options.original_max_seq_len);
  }
  if (options.scaling == RotaryScaling::yarn) {
    TORCH_CHECK_VALUE(options.beta_slow > 0.0 && options.beta_fast > options.beta_slow &&
                          std::isfinite(options.beta_fast),
                      "beta_fast (", options.beta_fast, ") must be greater than beta_slow (",
                      options.beta_slow, "), and both must be positive and finite");
    TORCH_CHECK_VALUE(options.attention_factor >= 0.0 && std::isfinite(options.attention_factor),
                      "attention_factor (", options.attention_factor,
                      ") must be finite and not negative");
  }
  if (options.scaling == RotaryScaling::llama3) {
    TORCH_CHECK_VALUE(
        options.low_freq_factor >= 0.0 && options.high_freq_factor > options.low_freq_factor &&
            std::isfinite(options.high_freq_factor),
        "high_freq_factor (", options.high_freq_factor, ") must be greater than low_freq_factor (",
        options.low_freq_factor, "), which must not be negative; both must be finite");
  }
}

/// Linear ramp from 0 at `begin` to 1 at `end`.
double linear_ramp(double x, double begin, double end) {
  return std::clamp((x - begin) / (end - begin), 0.0, 1.0);
}

/// Fractional index of the channel pair that makes `rotations` full rotations in
/// original_max_seq_len tokens (YaRN).
double pair_with_rotations(double rotations, double rotary_dim, const RotaryOptions& options) {
  const auto context = static_cast<double>(options.original_max_seq_len);
  return rotary_dim * std::log(context / (rotations * kTwoPi)) / (2.0 * std::log(options.theta));
}

/// YaRN: the frequency of channel pair `pair` is a weighted mean of its original frequency and the
/// interpolated frequency (original frequency / factor). Returns the weight of the interpolated
/// frequency, in [0, 1].
double yarn_interpolation(double pair, double rotary_dim, const RotaryOptions& options) {
  double low = pair_with_rotations(options.beta_fast, rotary_dim, options);
  double high = pair_with_rotations(options.beta_slow, rotary_dim, options);
  if (options.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  // As in the YaRN paper's code, the limit is rotary_dim - 1, not the index of the last pair.
  high = std::min(high, rotary_dim - 1.0);
  if (low == high) high += 0.001;  // avoids division by zero
  return linear_ramp(pair, low, high);
}

/// Llama 3.1: returns the weight, in [0, 1], of the interpolated frequency (`frequency` / factor).
/// `frequency`: frequency of the channel pair before interpolation.
double llama3_interpolation(double frequency, const RotaryOptions& options) {
  const double rotations = static_cast<double>(options.original_max_seq_len) * frequency / kTwoPi;
  return 1.0 - linear_ramp(rotations, options.low_freq_factor, options.high_freq_factor);
}

/// Returns the weight, in [0, 1], of the interpolated frequency (`frequency` / factor). `pair`:
/// index of the channel pair. `frequency`: frequency of the pair before interpolation.
double interpolation_weight(double pair, double frequency, double rotary_dim,
                            const RotaryOptions& options) {
  switch (options.scaling) {
    case RotaryScaling::linear:
      return 1.0;
    case RotaryScaling::yarn:
      return yarn_interpolation(pair, rotary_dim, options);
    case RotaryScaling::llama3:
      return llama3_interpolation(frequency, options);
    case RotaryScaling::none:
    case RotaryScaling::ntk:
      break;  // ntk scales theta instead
  }
  return 0.0;
}

void check_tables(const RotaryTables& tables, const torch::Tensor& x) {
  TORCH_CHECK_TYPE(x.is_floating_point(), "apply_rotary expects a float dtype, found ",
                   x.scalar_type());
  TORCH_CHECK_VALUE(x.dim() >= 2 && 2 * tables.cos.size(-1) <= x.size(-1),
                    "apply_rotary expects (..., T, D) with D of at least ", 2 * tables.cos.size(-1),
                    ", found ", x.sizes());
  const auto positions = tables.cos.sizes().slice(0, tables.cos.sizes().size() - 1);
  const bool match =
      !positions.empty() && positions.back() == x.size(-2) &&
      (positions.size() == 1 || (positions.size() == 2 && x.dim() >= 3 &&
                                 (positions.front() == x.size(0) || positions.front() == 1)));
  TORCH_CHECK_VALUE(match, "positions ", positions,
                    " must be (T) or (B, T) for the input (B, ..., T, D) = ", x.sizes());
}

/// (B, T, R/2) -> (B, 1.., T, R/2), to broadcast over the heads of `x`; (T, R/2) is unchanged.
torch::Tensor broadcast_over_heads(torch::Tensor table, const torch::Tensor& x) {
  if (table.dim() > 2) {
    while (table.dim() < x.dim()) table = table.unsqueeze(-3);
  }
  return table;
}

}  // namespace

std::vector<double> rotary_frequencies(int64_t head_dim, const RotaryOptions& options) {
  const int64_t width = options.rotary_dim == 0 ? head_dim : options.rotary_dim;
  TORCH_CHECK_VALUE(width > 0 && width % 2 == 0 && width <= head_dim, "rotary_dim (", width,
                    ") must be even, positive and at most head_dim (", head_dim, ")");
  check_scaling(options);
  const auto rotary_dim = static_cast<double>(width);
  double theta = options.theta;
  if (options.scaling == RotaryScaling::ntk) {
    theta *= std::pow(options.factor, rotary_dim / (rotary_dim - 2.0));
  }
  std::vector<double> frequencies;
  for (int64_t i = 0; i < width / 2; ++i) {
    const auto pair = static_cast<double>(i);
    const double frequency = std::pow(theta, -2.0 * pair / rotary_dim);
    const double weight = interpolation_weight(pair, frequency, rotary_dim, options);
    frequencies.push_back(frequency * (weight / options.factor + 1.0 - weight));
  }
  return frequencies;
}

double rotary_attention_scaling(const RotaryOptions& options) {
  if (options.scaling != RotaryScaling::yarn) return 1.0;
  return options.attention_factor > 0.0 ? options.attention_factor
                                        : 0.1 * std::log(options.factor) + 1.0;
}

RotaryTables rotary_tables(const torch::Tensor& positions, const torch::Tensor& frequencies,
                           double attention_scaling) {
  const auto angles = positions.type_as(frequencies).unsqueeze(-1) * frequencies;  // (..., T, R/2)
  RotaryTables tables{angles.cos(), angles.sin()};
  if (attention_scaling != 1.0)
    tables = {tables.cos * attention_scaling, tables.sin * attention_scaling};
  return tables;
}

torch::Tensor apply_rotary(const torch::Tensor& x, const RotaryTables& tables, bool interleaved) {
  check_tables(tables, x);
  const int64_t width = 2 * tables.cos.size(-1);
  const int64_t pair_dim = interleaved ? -1 : -2;
  const auto rotated_part = x.slice(-1, 0, width).type_as(tables.cos);
  const auto pairs = interleaved ? rotated_part.unflatten(-1, {-1, 2})   // (..., T, R/2, 2)
                                 : rotated_part.unflatten(-1, {2, -1});  // (..., T, 2, R/2)
  const auto a = pairs.select(pair_dim, 0);                              // (..., T, R/2)
  const auto b = pairs.select(pair_dim, 1);                              // (..., T, R/2)
  const auto cos = broadcast_over_heads(tables.cos, x);
  const auto sin = broadcast_over_heads(tables.sin, x);
  const auto rotated = torch::stack({a * cos - b * sin, a * sin + b * cos}, pair_dim)
                           .flatten(-2)
                           .type_as(x);  // (..., T, R)
  return width == x.size(-1) ? rotated : torch::cat({rotated, x.slice(-1, width)}, -1);
}

torch::Tensor apply_rotary(const torch::Tensor& x, const torch::Tensor& positions,
                           const RotaryOptions& options) {
  TORCH_CHECK_VALUE(x.dim() >= 2, "apply_rotary expects (..., T, D), found ", x.sizes());
  const auto exact_positions = to_math_type(positions, x);
  const auto frequencies = torch::tensor(rotary_frequencies(x.size(-1), options), torch::kDouble)
                               .type_as(exact_positions);
  return apply_rotary(
      x, rotary_tables(exact_positions, frequencies, rotary_attention_scaling(options)),
      options.interleaved);
}

}  // namespace attend
