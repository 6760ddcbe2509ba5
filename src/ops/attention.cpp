#include "attend/ops/attention.h"

#include "attend/ops/attention_recorder.h"
#include "ops/attention_call.h"
#include "ops/attention_checks.h"
#include "ops/autocast.h"
#include "ops/block_attention.h"
#include "ops/decoding_step.h"
#include "ops/double_backward.h"
#include "ops/fast_kernels.h"
#include "ops/math_type.h"
#include "ops/prepared_mask.h"
#include "ops/short_attention.h"

#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>
#include <optional>

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

/// Attention with the operators of LibTorch.
torch::Tensor attend_with_libtorch(const torch::Tensor& query, const torch::Tensor& key,
                                   const torch::Tensor& value, const PreparedMask& mask,
                                   const ScoreOptions& options) {
  // std::nullopt = no mask. LibTorch would treat an undefined tensor as a mask.
  const auto optional_mask = mask.mask.defined() ? std::make_optional(mask.mask) : std::nullopt;
  const bool gqa = is_grouped(query, key);
  // The fused kernels have no forward-mode derivatives.
  if (is_dual(query) || is_dual(key) || is_dual(value) || is_dual(mask.mask)) {
    auto added = optional_mask;  // this operator adds a mask of bools as 0 and 1
    if (added && added->scalar_type() == torch::kBool)
      added =
          torch::zeros_like(*added, query.options()).masked_fill(added->logical_not(), -INFINITY);
    return std::get<0>(at::_scaled_dot_product_attention_math(
        query, key, value, added, options.dropout, mask.is_causal, /*dropout_mask=*/{},
        options.scale, gqa));
  }
  const auto output = at::scaled_dot_product_attention(
      query, key, value, optional_mask, options.dropout, mask.is_causal, options.scale, gqa);
  if (output.requires_grad()) support_double_backward(output);
  return output;
}

/// Returns false if a value is NaN or infinite, given the output of causal attention: its last
/// query attends to all values. Returns true if values are not read, as in a transform of
/// functorch.
bool has_finite_values(const torch::Tensor& output) {
  if (!is_plain(output) || in_functorch_transform() || output.numel() == 0) return true;
  return std::isfinite(output.detach().select(-2, -1).sum().item<double>());
}

AttentionOutput attend_in_kernel(const torch::Tensor& query, const torch::Tensor& key,
                                 const torch::Tensor& value, const PreparedMask& mask,
                                 const ScoreOptions& options) {
  if (query.size(-2) == 1 && !mask.mask.defined() && options.dropout == 0.0) {
    const auto output = one_query_attention(query, key, value, options.scale);
    if (output.defined()) return {output, {}};
  }
  const auto q = cast_for_kernel(query);
  const auto k = cast_for_kernel(key);
  const auto v = cast_for_kernel(value);
  const auto attend_to = [&](const torch::Tensor& values) {
    std::optional<torch::Tensor> output;
    if (!mask.mask.defined()) output = short_attention(q, k, values, mask.is_causal, options);
    return output ? *output : attend_with_libtorch(q, k, values, mask, options);
  };
  const auto output = attend_to(v);
  if (!mask.is_causal || options.dropout > 0.0 || has_finite_values(output)) return {output, {}};
  // The kernels multiply some masked values by weights of 0, which is NaN for a value that is not
  // finite. Which ones depends on the kernel. Here, such a value reaches exactly the queries that
  // attend to it, with all kernels.
  const auto is_finite = v.isfinite();
  const auto reached = v.masked_fill(is_finite, 0.0).cumsum(-2);  // (..., S, Dv)
  const auto finite = v.masked_fill(is_finite.logical_not(), 0.0);
  return {attend_to(finite) + repeat_heads(reached, q), {}};
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
