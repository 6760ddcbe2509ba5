#include "ops/prepared_mask.h"

#include "attend/ops/attention_recorder.h"
#include "attend/ops/masks.h"

#include <torch/csrc/jit/frontend/tracer.h>

namespace attend {
namespace {

/// Returns true if the result of the fused kernels with `is_causal` is correct. The kernels align
/// the mask at the top left, which is correct only if T = S. They also scale the scores after
/// masking, so a scale of 0 or less would give NaN. In a trace, returns false, since a trace may be
/// run with other sizes.
bool kernel_can_mask_causally(const torch::Tensor& query, const torch::Tensor& key,
                              const ScoreOptions& options) {
  return query.size(-2) == key.size(-2) && options.scale.value_or(1.0) > 0.0 &&
         !torch::jit::tracer::isTracing();
}

/// Returns true if the fused kernel applies the causal mask itself.
bool kernel_masks_causally(const torch::Tensor& query, const torch::Tensor& key,
                           const AttentionArgs& args, const ScoreOptions& options) {
  return only_causal(args) && !computes_weights(args, options) && !options.bias.defined() &&
         kernel_can_mask_causally(query, key, options);
}

/// Returns true if there is a single query. If the only mask is causal, this query may attend to
/// all keys, since it is the last token. Returns false in a trace, whose T may vary.
bool is_single_step(const torch::Tensor& query) {
  return query.size(-2) == 1 && !torch::jit::tracer::isTracing();
}

/// Returns `mask` with all keys allowed in the fully masked `rows`. Otherwise, the softmax of
/// these rows would be NaN in the forward and backward pass. The output of these rows is later
/// replaced by zeros, so their gradient is also zero.
torch::Tensor unmask_rows(const torch::Tensor& mask, const torch::Tensor& rows) {
  return mask.scalar_type() == torch::kBool ? mask.logical_or(rows) : mask.masked_fill(rows, 0.0);
}

/// Casts float masks to the query's dtype.
torch::Tensor as_kernel_mask(const torch::Tensor& mask, const torch::Tensor& query) {
  return mask.scalar_type() == torch::kBool ? mask : mask.type_as(query);
}

}  // namespace

bool only_causal(const AttentionArgs& args) {
  return args.causal && !args.mask.defined() && !args.key_mask.defined() &&
         !args.segments.defined() && !args.positions.defined() && args.sliding_window == 0;
}

bool computes_weights(const AttentionArgs& args, const ScoreOptions& options) {
  return args.need_weights || AttentionRecorder::is_recording() || options.soft_cap > 0 ||
         options.sinks.defined();
}

bool can_have_fully_masked_rows(const torch::Tensor& query, const torch::Tensor& key,
                                const AttentionArgs& args, bool self_attention) {
  if (args.mask.defined() || args.key_mask.defined() || args.key_segments.defined() ||
      args.key_positions.defined()) {
    return true;
  }
  // Without key_segments and key_positions, the keys have the segments and positions of the
  // queries, so each query may attend to its own token.
  if (args.segments.defined() || args.positions.defined()) return false;
  // The last query and the last key have the same position, so if S >= T, each query has a key at
  // its own position.
  const bool sizes_may_change = torch::jit::tracer::isTracing() && !self_attention;
  return sizes_may_change || key.size(-2) < query.size(-2);
}

bool needs_mask(const torch::Tensor& query, const torch::Tensor& key, const AttentionArgs& args,
                const ScoreOptions& options) {
  const bool any = args.mask.defined() || args.key_mask.defined() || args.segments.defined() ||
                   args.causal || args.sliding_window > 0;
  return any && !kernel_masks_causally(query, key, args, options);
}

PreparedMask finish_mask(torch::Tensor mask, const torch::Tensor& query, bool may_mask_rows) {
  if (!mask.defined()) return {};
  // The fused kernels take masks of two or four dimensions, so (H, T, S) becomes (1, H, T, S).
  while (mask.dim() < query.dim()) mask = mask.unsqueeze(0);
  // The mask is cast before the search for fully masked rows, because casts to half types turn the
  // lowest float32 into -infinity.
  mask = as_kernel_mask(mask, query);
  if (!may_mask_rows) return {.mask = mask};
  const auto rows = fully_masked_rows(mask);  // (..., T, 1)
  return {.mask = unmask_rows(mask, rows), .fully_masked_rows = rows};
}

PreparedMask prepare_mask(const torch::Tensor& query, const torch::Tensor& key,
                          const AttentionArgs& args, const ScoreOptions& options,
                          bool self_attention) {
  if (only_causal(args) && is_single_step(query)) return {};
  if (kernel_masks_causally(query, key, args, options)) return {.is_causal = true};
  return finish_mask(attention_mask(query, key, args), query,
                     can_have_fully_masked_rows(query, key, args, self_attention));
}

PreparedMask add_bias(const PreparedMask& prepared, const torch::Tensor& bias,
                      const torch::Tensor& query) {
  const auto& mask = prepared.mask;
  auto sum = combine_masks(mask, bias);
  while (sum.dim() < query.dim()) sum = sum.unsqueeze(0);
  PreparedMask result{.mask = as_kernel_mask(sum, query),
                      .fully_masked_rows = prepared.fully_masked_rows};
  // In a trace, true for every dtype, since the traced model may be cast to a half type.
  const bool is_narrow =
      at::isReducedFloatingType(query.scalar_type()) || torch::jit::tracer::isTracing();
  const bool may_overflow = is_narrow && mask.defined() && mask.is_floating_point() &&
                            prepared.fully_masked_rows.defined();
  if (may_overflow) {  // the lowest float16 plus a negative bias is -infinity
    const auto rows = fully_masked_rows(result.mask);
    result.mask = unmask_rows(result.mask, rows);
    result.fully_masked_rows = prepared.fully_masked_rows.logical_or(rows);
  }
  return result;
}

}  // namespace attend
