#include "attend/ops/attention.h"

#include "attend/ops/attention_recorder.h"
#include "attend/ops/masks.h"
#include "ops/attention_checks.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <cmath>

namespace attend {
namespace {

/// Whether `args` forbid nothing but later keys.
bool only_causal(const AttentionArgs& args) {
  return args.causal && !args.mask.defined() && !args.key_mask.defined() &&
         !args.segments.defined() && !args.positions.defined() && args.sliding_window == 0;
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

/// A mask under which every query has something to attend to.
struct SafeMask {
  torch::Tensor mask;  ///< undefined if there is none
  torch::Tensor dead;  ///< (..., T, 1): the queries that had nothing; undefined without a mask
};

SafeMask without_dead_rows(torch::Tensor mask, const torch::Tensor& query) {
  if (!mask.defined()) return {};
  // The fused kernels take no mask of three dimensions, or of fewer than two.
  while (mask.dim() < query.dim()) mask = mask.unsqueeze(0);
  const bool is_bool = mask.scalar_type() == torch::kBool;
  // Before looking for dead rows: the least float32 is -infinity in the narrower types.
  if (!is_bool) mask = mask.to(query.scalar_type());
  // Softmax over nothing is NaN, forward and backward. Such a row attends to everything instead,
  // and what it gives is then replaced by zeros, which stops its gradient too.
  const auto dead = fully_masked_rows(mask);
  return {is_bool ? mask.logical_or(dead) : mask.masked_fill(dead, 0.0), dead};
}

/// (..., G, S, D) -> (..., H, S, D): each head as often in a row as it has heads of queries; one
/// head for all broadcasts as it is.
torch::Tensor repeat_heads(const torch::Tensor& x, const torch::Tensor& query) {
  if (!is_grouped(query, x) || x.size(-3) == 1) return x;
  return x.repeat_interleave(query.size(-3) / x.size(-3), -3);
}

/// The softmax of `scores` (..., H, T, S) over the keys, in which the head's sink takes part.
torch::Tensor softmax_with_sinks(const torch::Tensor& scores, const torch::Tensor& sinks) {
  const auto zeros = scores.narrow(-1, 0, 0).sum(-1, /*keepdim=*/true);          // (..., H, T, 1)
  const auto sink = zeros + sinks.to(scores.scalar_type()).reshape({-1, 1, 1});  // (..., H, T, 1)
  return torch::softmax(torch::cat({scores, sink}, -1), -1).slice(-1, 0, -1);
}

/// Attention spelled out, for what the fused kernels cannot do or do not return.
AttentionOutput attend_with_weights(const torch::Tensor& query, const torch::Tensor& given_key,
                                    const torch::Tensor& given_value, const torch::Tensor& mask,
                                    const ScoreOptions& options) {
  const auto key = repeat_heads(given_key, query);
  const auto value = repeat_heads(given_value, query);
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
  auto weights = options.sinks.defined() ? softmax_with_sinks(scores, options.sinks)
                                         : torch::softmax(scores, -1);
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
  check_attention(query, key, value, args, options);
  auto* recorder = AttentionRecorder::current();
  const bool spelled_out =
      args.need_weights || recorder != nullptr || options.soft_cap > 0 || options.sinks.defined();

  const bool causal_in_kernel =
      !spelled_out && only_causal(args) && kernel_can_mask_causally(query, key, options.scale);
  const bool needs_mask = !causal_in_kernel && !(only_causal(args) && is_single_step(query));
  const auto [mask, dead] =
      without_dead_rows(needs_mask ? attention_mask(query, key, args) : torch::Tensor(), query);

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
