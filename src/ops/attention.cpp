#include "attend/ops/attention.h"

#include "attend/ops/attention_recorder.h"
#include "ops/attention_call.h"
#include "ops/attention_checks.h"
#include "ops/autocast.h"
#include "ops/block_attention.h"
#include "ops/double_backward.h"
#include "ops/math_type.h"
#include "ops/one_query.h"
#include "ops/prepared_mask.h"
#include "ops/short_attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>

namespace attend {
namespace {

/// (..., G, S, D) -> (..., H, S, D): repeats each head H/G times. Returns `x` if G = H, and also if
/// G = 1, since a single head broadcasts.
torch::Tensor repeat_heads(const torch::Tensor& x, const torch::Tensor& query) {
  if (!is_grouped(query, x) || x.size(-3) == 1) return x;
  return x.repeat_interleave(query.size(-3) / x.size(-3), -3);
}

/// Softmax of `scores` (..., H, T, S) over the keys and the head's sink. The result does not
/// contain the sink's weight.
torch::Tensor softmax_with_sinks(const torch::Tensor& scores, const torch::Tensor& sinks) {
  const auto zeros = scores.narrow(-1, 0, 0).sum(-1, /*keepdim=*/true);  // (..., H, T, 1)
  const auto sink = zeros + sinks.type_as(scores).reshape({-1, 1, 1});   // (..., H, T, 1)
  return torch::softmax(torch::cat({scores, sink}, -1), -1).slice(-1, 0, -1);
}

/// Attention that computes the weights explicitly, for features that the fused kernels do not have.
AttentionOutput attend_with_weights(const torch::Tensor& input_query,
                                    const torch::Tensor& input_key,
                                    const torch::Tensor& input_value, const torch::Tensor& mask,
                                    const ScoreOptions& options) {
  const auto query = cast_for_kernel(input_query);
  const auto key = repeat_heads(cast_for_kernel(input_key), query);
  const auto value = repeat_heads(cast_for_kernel(input_value), query);
  // Autocast is disabled, because it would compute the scores in lower precision.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  // For queries in half types, the scores are computed in float32, as in the fused kernels. Half
  // types lack the range and precision for the sum of scores and mask.
  auto scores = torch::matmul(to_math_type(query, query) * scale,
                              to_math_type(key, query).transpose(-2, -1));  // (..., T, S)
  if (options.soft_cap > 0) scores = torch::tanh(scores / options.soft_cap) * options.soft_cap;
  if (mask.defined()) {
    scores = mask.scalar_type() == torch::kBool ? scores.masked_fill(mask.logical_not(), -INFINITY)
                                                : scores + mask;
  }
  const auto exact_weights = options.sinks.defined() ? softmax_with_sinks(scores, options.sinks)
                                                     : torch::softmax(scores, -1);
  const auto weights = exact_weights.type_as(query);
  const auto dropped = torch::dropout(weights, options.dropout, /*train=*/options.dropout > 0);
  return {torch::matmul(dropped, value), weights};
}

AttentionOutput attend_in_kernel(const torch::Tensor& query, const torch::Tensor& key,
                                 const torch::Tensor& value, const PreparedMask& mask,
                                 const ScoreOptions& options) {
  if (query.size(-2) == 1 && !mask.mask.defined() && options.dropout == 0.0) {
    const auto output = attend_one_query(query, key, value, options.scale);
    if (output.defined()) return {output, {}};
  }
  const auto q = cast_for_kernel(query);
  const auto k = cast_for_kernel(key);
  const auto v = cast_for_kernel(value);
  if (!mask.mask.defined()) {
    const auto output = short_attention(q, k, v, mask.is_causal, options);
    if (output) return {*output, {}};
  }
  // std::nullopt = no mask. LibTorch would treat an undefined tensor as a mask.
  const auto optional_mask = mask.mask.defined() ? std::make_optional(mask.mask) : std::nullopt;
  const auto output =
      at::scaled_dot_product_attention(q, k, v, optional_mask, options.dropout, mask.is_causal,
                                       options.scale, is_grouped(query, key));
  if (output.requires_grad()) forbid_double_backward(output);
  return {output, {}};
}

}  // namespace

torch::Tensor cast_for_kernel(const torch::Tensor& x) {
  const auto device = x.device().type();
  const auto dtype = autocast_dtype(device);
  return dtype ? at::autocast::cached_cast(*dtype, x, device) : x;
}

AttentionOutput attention_with_mask(const torch::Tensor& query, const torch::Tensor& key,
                                    const torch::Tensor& value, const PreparedMask& mask,
                                    const AttentionArgs& args, const ScoreOptions& options) {
  const bool with_weights = computes_weights(args, options);
  auto result = with_weights ? attend_with_weights(query, key, value, mask.mask, options)
                             : attend_in_kernel(query, key, value, mask, options);
  const auto& rows = mask.fully_masked_rows;
  if (rows.defined()) {
    result.output = result.output.masked_fill(rows, 0.0);
    if (with_weights) result.weights = result.weights.masked_fill(rows, 0.0);
  }
  if (with_weights) AttentionRecorder::record(result.weights);
  if (!args.need_weights) result.weights.reset();
  if (args.need_weights && args.average_attn_weights) result.weights = result.weights.mean(-3);
  return result;
}

PreparedMask MaskSource::mask(const AttentionCall& call) {
  const auto mask =
      prepare_mask(call.query, call.key, call.args, call.options, call.self_attention);
  const auto& bias = call.options.bias;
  return bias.defined() ? add_bias(mask, bias, call.query) : mask;
}

AttentionOutput attend(const AttentionCall& call, MaskSource& masks) {
  const auto& [query, key, value, args, options, self_attention] = call;
  check_attention(query, key, value, args, options);
  if (computes_in_blocks(query, key, value, args, options, masks.has_offset_bias())) {
    const auto bias = masks.offset_bias(call);
    return {attend_in_blocks(query, key, value, args, options, bias, self_attention), {}};
  }
  return attention_with_mask(query, key, value, masks.mask(call), args, options);
}

AttentionOutput dot_product_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& value, const AttentionArgs& args,
                                      const ScoreOptions& options) {
  MaskSource masks;
  return attend({query, key, value, args, options}, masks);
}

}  // namespace attend
