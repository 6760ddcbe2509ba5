#include "attend/ops/rotary.h"

#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attend {
namespace {

constexpr double kTurn = 2.0 * std::numbers::pi;

void check_scaling(const RotaryOptions& options) {
  const auto scaling = to_string(options.scaling);
  TORCH_CHECK_VALUE(options.theta > 1.0, "theta (", options.theta, ") must be greater than 1");
  TORCH_CHECK_VALUE(options.factor >= 1.0, "factor (", options.factor, ") must be at least 1");
  if (options.scaling == RotaryScaling::none) {
    TORCH_CHECK_VALUE(options.factor == 1.0, "factor (", options.factor,
                      ") needs a scaling, found none");
  }
  if (options.scaling == RotaryScaling::yarn || options.scaling == RotaryScaling::llama3) {
    TORCH_CHECK_VALUE(options.original_max_seq_len > 0, "scaling ", scaling,
                      " needs a positive original_max_seq_len, found ",
                      options.original_max_seq_len);
  }
  if (options.scaling == RotaryScaling::yarn) {
    TORCH_CHECK_VALUE(options.beta_slow > 0.0 && options.beta_fast > options.beta_slow,
                      "beta_fast (", options.beta_fast, ") must be greater than beta_slow (",
                      options.beta_slow, "), and both positive");
    TORCH_CHECK_VALUE(options.attention_factor >= 0.0, "attention_factor (",
                      options.attention_factor, ") must not be negative");
  }
  if (options.scaling == RotaryScaling::llama3) {
    TORCH_CHECK_VALUE(options.high_freq_factor > options.low_freq_factor, "high_freq_factor (",
                      options.high_freq_factor, ") must be greater than low_freq_factor (",
                      options.low_freq_factor, ")");
  }
}

/// How far `x` is on the way from `begin` (0) to `end` (1).
double ramp(double x, double begin, double end) {
  return std::clamp((x - begin) / (end - begin), 0.0, 1.0);
}

/// The pair of channels, counted in fractions, that makes so many turns over the original context.
double pair_that_makes(double turns, double rotary_dim, const RotaryOptions& options) {
  const auto context = static_cast<double>(options.original_max_seq_len);
  return rotary_dim * std::log(context / (turns * kTurn)) / (2.0 * std::log(options.theta));
}

double slowed_by_yarn(double pair, double rotary_dim, const RotaryOptions& options) {
  double first = pair_that_makes(options.beta_fast, rotary_dim, options);
  double last = pair_that_makes(options.beta_slow, rotary_dim, options);
  if (options.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  // Not the last pair, which is rotary_dim / 2 - 1: so the published models have it.
  last = std::min(last, rotary_dim - 1.0);
  if (first == last) last += 0.001;  // a step, which a ramp of no length is not
  return ramp(pair, first, last);
}

double slowed_by_llama3(double frequency, const RotaryOptions& options) {
  const double turns = static_cast<double>(options.original_max_seq_len) * frequency / kTurn;
  return 1.0 - ramp(turns, options.low_freq_factor, options.high_freq_factor);
}

/// How much of a pair's frequency is divided by `factor`: a share of 1, the rest is kept.
double slowed_share(double pair, double frequency, double rotary_dim,
                    const RotaryOptions& options) {
  switch (options.scaling) {
    case RotaryScaling::linear:
      return 1.0;
    case RotaryScaling::yarn:
      return slowed_by_yarn(pair, rotary_dim, options);
    case RotaryScaling::llama3:
      return slowed_by_llama3(frequency, options);
    case RotaryScaling::none:
    case RotaryScaling::ntk:
      break;  // ntk has slowed them all by its theta
  }
  return 0.0;
}

void check_tables(const RotaryTables& tables, const torch::Tensor& x) {
  TORCH_CHECK_TYPE(x.is_floating_point(), "rotate needs a float dtype, found ", x.scalar_type());
  TORCH_CHECK_VALUE(x.dim() >= 2 && 2 * tables.cos.size(-1) <= x.size(-1),
                    "rotate needs (..., T, D) with D of at least ", 2 * tables.cos.size(-1),
                    ", found ", x.sizes());
  const auto positions = tables.cos.sizes().slice(0, tables.cos.sizes().size() - 1);
  const bool fits =
      !positions.empty() && positions.back() == x.size(-2) &&
      (positions.size() == 1 || (positions.size() == 2 && x.dim() >= 3 &&
                                 (positions.front() == x.size(0) || positions.front() == 1)));
  TORCH_CHECK_VALUE(fits, "positions ", positions, " must be (T) or (B, T) of what they rotate, ",
                    x.sizes());
}

/// (B, T, R/2) -> (B, 1.., T, R/2), to stand beside the heads of `x`; (T, R/2) stays.
torch::Tensor beside_heads(torch::Tensor turns, const torch::Tensor& x) {
  if (turns.dim() > 2) {
    while (turns.dim() < x.dim()) turns = turns.unsqueeze(-3);
  }
  return turns;
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
    const double slowed = slowed_share(pair, frequency, rotary_dim, options);
    frequencies.push_back(frequency * (slowed / options.factor + 1.0 - slowed));
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
  const auto angles =
      positions.to(frequencies.scalar_type()).unsqueeze(-1) * frequencies;  // (..., T, R/2)
  RotaryTables tables{angles.cos(), angles.sin()};
  if (attention_scaling != 1.0)
    tables = {tables.cos * attention_scaling, tables.sin * attention_scaling};
  return tables;
}

torch::Tensor apply_rotary(const torch::Tensor& x, const RotaryTables& tables, bool interleaved) {
  check_tables(tables, x);
  const int64_t width = 2 * tables.cos.size(-1);
  const int64_t side = interleaved ? -1 : -2;
  const auto turning = x.slice(-1, 0, width).to(tables.cos.scalar_type());
  const auto pairs = interleaved ? turning.unflatten(-1, {-1, 2})   // (..., T, R/2, 2)
                                 : turning.unflatten(-1, {2, -1});  // (..., T, 2, R/2)
  const auto a = pairs.select(side, 0);                             // (..., T, R/2)
  const auto b = pairs.select(side, 1);                             // (..., T, R/2)
  const auto cos = beside_heads(tables.cos, x);
  const auto sin = beside_heads(tables.sin, x);
  const auto turned = torch::stack({a * cos - b * sin, a * sin + b * cos}, side)
                          .flatten(-2)
                          .to(x.scalar_type());  // (..., T, R)
  return width == x.size(-1) ? turned : torch::cat({turned, x.slice(-1, width)}, -1);
}

torch::Tensor apply_rotary(const torch::Tensor& x, const torch::Tensor& positions,
                           const RotaryOptions& options) {
  TORCH_CHECK_VALUE(x.dim() >= 2, "rotate needs (..., T, D), found ", x.sizes());
  const auto steps = positions.to(at::toOpMathType(x.scalar_type()));
  const auto frequencies =
      torch::tensor(rotary_frequencies(x.size(-1), options), torch::kDouble).type_as(steps);
  return apply_rotary(x, rotary_tables(steps, frequencies, rotary_attention_scaling(options)),
                      options.interleaved);
}

}  // namespace attend
