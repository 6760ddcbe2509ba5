#include "attend/ops/attention.h"

#include "attend/ops/attention_recorder.h"
#include "attend/ops/masks.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <cmath>
#include <string>

namespace attend {
namespace {

void check_inputs(const torch::Tensor& query, const torch::Tensor& key,
                  const torch::Tensor& value) {
  TORCH_CHECK_VALUE(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
                    "attention needs (..., length, width), found query ", query.sizes(), ", key ",
                    key.sizes(), " and value ", value.sizes());
  TORCH_CHECK_VALUE(query.size(-1) == key.size(-1), "query width (", query.size(-1),
                    ") must equal key width (", key.size(-1), ")");
  TORCH_CHECK_VALUE(key.size(-2) == value.size(-2), "key length (", key.size(-2),
                    ") must equal value length (", value.size(-2), ")");
  TORCH_CHECK_TYPE(query.is_floating_point() && query.scalar_type() == key.scalar_type() &&
                       key.scalar_type() == value.scalar_type(),
                   "query, key and value must have one float dtype, found ", query.scalar_type(),
                   ", ", key.scalar_type(), " and ", value.scalar_type());
}

/// Whether several heads of queries share one of keys and values (grouped-query attention). Heads
/// that broadcast (of one, or none) are no groups.
bool is_grouped(const torch::Tensor& query, const torch::Tensor& key) {
  return query.dim() >= 3 && key.dim() == query.dim() && key.size(-3) != query.size(-3) &&
         key.size(-3) > 1 && query.size(-3) % key.size(-3) == 0;
}

void check_leading(const torch::Tensor& query, const torch::Tensor& key,
                   const torch::Tensor& value) {
  const int64_t inner = is_grouped(query, key) ? 3 : 2;
  const auto leading = [](const torch::Tensor& x, int64_t last) {
    return x.sizes().slice(0, x.sizes().size() - static_cast<std::size_t>(last));
  };
  TORCH_CHECK_VALUE(
      at::are_expandable(leading(query, inner), leading(key, inner)) &&
          at::are_expandable(leading(query, inner), leading(value, inner)) &&
          at::are_expandable(leading(key, 2), leading(value, 2)),
      "query ", query.sizes(), ", key ", key.sizes(), " and value ", value.sizes(),
      " must agree in batch and heads; the queries' heads may be a multiple of the keys'");
}

void check_mask(const torch::Tensor& mask, const torch::Tensor& query, const torch::Tensor& key) {
  if (!mask.defined()) return;
  TORCH_CHECK_TYPE(mask.scalar_type() == torch::kBool || mask.is_floating_point(),
                   "mask must be bool (true = may attend) or float (added), found ",
                   mask.scalar_type());
  auto scores_shape = query.sizes().vec();
  scores_shape.back() = key.size(-2);
  TORCH_CHECK_VALUE(at::is_expandable_to(mask.sizes(), scores_shape), "mask ", mask.sizes(),
                    " must broadcast to the scores ", c10::IntArrayRef(scores_shape));
}

/// Checks what has one entry for each token: (length) or, when `x` has a batch, (B, length).
void check_per_token(const char* name, const torch::Tensor& tokens, const torch::Tensor& x) {
  if (!tokens.defined()) return;
  const bool fits = tokens.dim() >= 1 && tokens.size(-1) == x.size(-2) &&
                    (tokens.dim() == 1 || (tokens.dim() == 2 && x.dim() >= 3 &&
                                           (tokens.size(0) == x.size(0) || tokens.size(0) == 1)));
  TORCH_CHECK_VALUE(
      fits, name, " ", tokens.sizes(), " must be (", x.size(-2), ")",
      x.dim() >= 3 ? " or (" + std::to_string(x.size(0)) + ", " + std::to_string(x.size(-2)) + ")"
                   : "",
      ", an entry for each token");
}

void check_args(const AttentionArgs& args, const torch::Tensor& query, const torch::Tensor& key) {
  check_mask(args.mask, query, key);
  check_per_token("key_valid", args.key_valid, key);
  TORCH_CHECK_TYPE(!args.key_valid.defined() || args.key_valid.scalar_type() == torch::kBool,
                   "key_valid must be bool (true = may be attended to), found ",
                   args.key_valid.scalar_type());
  check_per_token("segments", args.segments, query);
  check_per_token("key_segments", args.key_segments.defined() ? args.key_segments : args.segments,
                  key);
  TORCH_CHECK_VALUE(args.segments.defined() || !args.key_segments.defined(),
                    "key_segments are given, but no segments of the queries");
  check_per_token("positions", args.positions, query);
  check_per_token("key_positions",
                  args.key_positions.defined() ? args.key_positions : args.positions, key);
  TORCH_CHECK_VALUE(args.positions.defined() || !args.key_positions.defined(),
                    "key_positions are given, but no positions of the queries");
  TORCH_CHECK_VALUE(args.window >= 0, "window (", args.window, ") must not be negative");
}

void check_options(const ScoreOptions& options, const torch::Tensor& query) {
  TORCH_CHECK_VALUE(options.dropout >= 0.0 && options.dropout < 1.0, "dropout (", options.dropout,
                    ") must be in [0, 1)");
  TORCH_CHECK_VALUE(options.soft_cap >= 0.0, "soft_cap (", options.soft_cap,
                    ") must not be negative");
  if (!options.sinks.defined()) return;
  TORCH_CHECK_VALUE(query.dim() >= 3 && options.sinks.numel() == query.size(-3) &&
                        options.sinks.size(0) == query.size(-3),
                    "sinks ", options.sinks.sizes(),
                    " must hold one number for each of the heads of query ", query.sizes());
}

/// Whether `args` forbid nothing but later keys.
bool only_causal(const AttentionArgs& args) {
  return args.causal && !args.mask.defined() && !args.key_valid.defined() &&
         !args.segments.defined() && !args.positions.defined() && args.window == 0;
}

/// The fused kernels align `is_causal` at the top left, which is the same when T = S. A trace must
/// hold for lengths it has not seen, so there the mask is always spelled out.
/// And they scale what they have masked: a factor that is not positive would make NaN of it.
bool kernel_can_mask_causally(const torch::Tensor& query, const torch::Tensor& key,
                              std::optional<double> scale) {
  return query.size(-2) == key.size(-2) && scale.value_or(1.0) > 0.0 &&
         !torch::jit::tracer::isTracing();
}

/// The one query of a step sees all keys up to its own.
bool is_single_step(const torch::Tensor& query) {
  return query.size(-2) == 1 && !torch::jit::tracer::isTracing();
}

/// (..., G, S, D) -> (..., H, S, D): each head as often in a row as it has heads of queries.
torch::Tensor repeat_heads(const torch::Tensor& x, const torch::Tensor& query) {
  return x.repeat_interleave(query.size(-3) / x.size(-3), -3);
}

/// Attention spelled out, for what the fused kernels cannot do or do not return.
AttentionOutput attend_with_weights(const torch::Tensor& query, const torch::Tensor& given_key,
                                    const torch::Tensor& given_value, const torch::Tensor& mask,
                                    const ScoreOptions& options) {
  const bool grouped = is_grouped(query, given_key);
  const auto key = grouped ? repeat_heads(given_key, query) : given_key;
  const auto value = grouped ? repeat_heads(given_value, query) : given_value;
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  // As in the fused kernels: scores, and their sums with a mask, leave the range and the precision
  // of half types.
  const bool narrow = at::isReducedFloatingType(query.scalar_type());
  const auto type = narrow ? torch::kFloat : query.scalar_type();
  auto scores =
      torch::matmul(query.to(type) * scale, key.to(type).transpose(-2, -1));  // (..., T, S)
  if (options.soft_cap > 0) scores = torch::tanh(scores / options.soft_cap) * options.soft_cap;
  if (mask.defined()) {
    scores = mask.scalar_type() == torch::kBool ? scores.masked_fill(mask.logical_not(), -INFINITY)
                                                : scores + mask;
  }
  torch::Tensor weights;
  if (options.sinks.defined()) {
    const auto sinks = options.sinks.to(type).view({-1, 1, 1});  // (H, 1, 1)
    const auto column = scores.narrow(-1, 0, 0).sum(-1, /*keepdim=*/true) + sinks;
    weights = torch::softmax(torch::cat({scores, column}, -1), -1).slice(-1, 0, -1);
  } else {
    weights = torch::softmax(scores, -1);
  }
  if (narrow) weights = weights.to(query.scalar_type());
  const auto dropped = torch::dropout(weights, options.dropout, /*train=*/options.dropout > 0);
  return {torch::matmul(dropped, value), weights};
}

AttentionOutput attend_in_kernel(const torch::Tensor& query, const torch::Tensor& key,
                                 const torch::Tensor& value, const torch::Tensor& mask, bool causal,
                                 const ScoreOptions& options) {
  // An undefined tensor is not the absence of a mask to LibTorch.
  const auto mask_if_any = mask.defined() ? std::make_optional(mask) : std::nullopt;
  return {at::scaled_dot_product_attention(query, key, value, mask_if_any, options.dropout, causal,
                                           options.scale, is_grouped(query, key)),
          {}};
}

}  // namespace

AttentionOutput dot_product_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& value, const AttentionArgs& args,
                                      const ScoreOptions& options) {
  check_inputs(query, key, value);
  check_leading(query, key, value);
  check_args(args, query, key);
  check_options(options, query);
  auto* recorder = AttentionRecorder::current();
  const bool spelled_out =
      args.need_weights || recorder != nullptr || options.soft_cap > 0 || options.sinks.defined();

  const bool causal_in_kernel =
      !spelled_out && only_causal(args) && kernel_can_mask_causally(query, key, options.scale);
  const bool needs_mask = !causal_in_kernel && !(only_causal(args) && is_single_step(query));
  auto mask = needs_mask ? visible_keys(query, key, args) : torch::Tensor();
  torch::Tensor dead;  // (..., T, 1)
  if (mask.defined()) {
    // The kernels want rows and columns, also of a mask that holds for all rows, or for all scores.
    mask = torch::atleast_2d(mask);
    const bool is_bool = mask.scalar_type() == torch::kBool;
    // Before looking for dead rows: the least float32 is -infinity in the narrower types.
    if (!is_bool) mask = mask.to(query.scalar_type());
    // Softmax over nothing is NaN, forward and backward. Such a row attends to everything instead,
    // and what it gives is then replaced by zeros, which stops its gradient too.
    dead = rows_without_keys(mask);
    mask = is_bool ? mask.logical_or(dead) : mask.masked_fill(dead, 0.0);
  }

  auto result = spelled_out ? attend_with_weights(query, key, value, mask, options)
                            : attend_in_kernel(query, key, value, mask, causal_in_kernel, options);
  if (dead.defined()) {
    result.output = result.output.masked_fill(dead, 0.0);
    if (spelled_out) result.weights = result.weights.masked_fill(dead, 0.0);
  }
  if (recorder != nullptr) recorder->record(result.weights);
  if (!args.need_weights) result.weights.reset();
  if (args.need_weights && args.average_weights) result.weights = result.weights.mean(-3);
  return result;
}

}  // namespace attend
