#include "attend/ops/attention.h"

#include "attend/ops/attention_recorder.h"
#include "attend/ops/masks.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <cmath>

namespace attend {
namespace {

void check_inputs(const torch::Tensor& query, const torch::Tensor& key,
                  const torch::Tensor& value) {
  TORCH_CHECK_VALUE(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
                    "attention needs (..., length, width), found query ", query.sizes(), ", key ",
                    key.sizes(), " and value ", value.sizes());
  const auto leading = [](const torch::Tensor& x) {
    return x.sizes().slice(0, x.sizes().size() - 2);
  };
  TORCH_CHECK_VALUE(at::are_expandable(leading(query), leading(key)) &&
                        at::are_expandable(leading(query), leading(value)) &&
                        at::are_expandable(leading(key), leading(value)),
                    "query ", query.sizes(), ", key ", key.sizes(), " and value ", value.sizes(),
                    " must agree in batch and heads");
  TORCH_CHECK_VALUE(query.size(-1) == key.size(-1), "query width (", query.size(-1),
                    ") must equal key width (", key.size(-1), ")");
  TORCH_CHECK_VALUE(key.size(-2) == value.size(-2), "key length (", key.size(-2),
                    ") must equal value length (", value.size(-2), ")");
  TORCH_CHECK_TYPE(query.is_floating_point() && query.scalar_type() == key.scalar_type() &&
                       key.scalar_type() == value.scalar_type(),
                   "query, key and value must have one float dtype, found ", query.scalar_type(),
                   ", ", key.scalar_type(), " and ", value.scalar_type());
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

/// The fused kernels align `is_causal` at the top left, which is the same when T = S. A trace must
/// hold for lengths it has not seen, so there the mask is always spelled out.
/// And they scale what they have masked: a factor that is not positive would make NaN of it.
bool kernel_can_mask_causally(const torch::Tensor& query, const torch::Tensor& key,
                              std::optional<double> scale) {
  return query.size(-2) == key.size(-2) && scale.value_or(1.0) > 0.0 &&
         !torch::jit::tracer::isTracing();
}

AttentionOutput attend_with_weights(const torch::Tensor& query, const torch::Tensor& key,
                                    const torch::Tensor& value, const torch::Tensor& mask,
                                    double dropout, double scale) {
  // As in the fused kernels: scores, and their sums with a mask, leave the range and the precision
  // of half types.
  const bool narrow = at::isReducedFloatingType(query.scalar_type());
  const auto type = narrow ? torch::kFloat : query.scalar_type();
  auto scores =
      torch::matmul(query.to(type) * scale, key.to(type).transpose(-2, -1));  // (..., T, S)
  if (mask.defined()) {
    scores = mask.scalar_type() == torch::kBool ? scores.masked_fill(mask.logical_not(), -INFINITY)
                                                : scores + mask;
  }
  auto weights = torch::softmax(scores, -1);
  if (narrow) weights = weights.to(query.scalar_type());
  return {torch::matmul(torch::dropout(weights, dropout, /*train=*/dropout > 0), value), weights};
}

}  // namespace

AttentionOutput dot_product_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& value, const AttentionArgs& args,
                                      double dropout, std::optional<double> scale) {
  check_inputs(query, key, value);
  check_mask(args.mask, query, key);
  TORCH_CHECK_VALUE(dropout >= 0.0 && dropout < 1.0, "dropout (", dropout, ") must be in [0, 1)");
  // The kernels want rows and columns, also of a mask that holds for all rows, or for all scores.
  const auto given_mask = args.mask.defined() ? torch::atleast_2d(args.mask) : torch::Tensor();
  auto* recorder = AttentionRecorder::current();
  const bool need_weights = args.need_weights || recorder != nullptr;

  const bool causal_in_kernel = args.causal && !given_mask.defined() && !need_weights &&
                                kernel_can_mask_causally(query, key, scale);
  auto mask = args.causal && !causal_in_kernel ? combine_masks(given_mask, causal_mask(query, key))
                                               : given_mask;
  torch::Tensor dead;  // (..., T, 1)
  if (mask.defined()) {
    const bool is_bool = mask.scalar_type() == torch::kBool;
    // Before looking for dead rows: the least float32 is -infinity in the narrower types.
    if (!is_bool) mask = mask.to(query.scalar_type());
    // Softmax over nothing is NaN, forward and backward. Such a row attends to everything instead,
    // and what it gives is then replaced by zeros, which stops its gradient too.
    dead = rows_without_keys(mask);
    mask = is_bool ? mask.logical_or(dead) : mask.masked_fill(dead, 0.0);
  }

  AttentionOutput result;
  if (need_weights) {
    const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
    result = attend_with_weights(query, key, value, mask, dropout, factor);
  } else {
    // An undefined tensor is not the absence of a mask to LibTorch.
    const auto mask_if_any = mask.defined() ? std::make_optional(mask) : std::nullopt;
    result.output = at::scaled_dot_product_attention(query, key, value, mask_if_any, dropout,
                                                     causal_in_kernel, scale);
  }
  if (dead.defined()) {
    result.output = result.output.masked_fill(dead, 0.0);
    if (need_weights) result.weights = result.weights.masked_fill(dead, 0.0);
  }
  if (recorder != nullptr) recorder->record(result.weights);
  if (!args.need_weights) result.weights.reset();
  return result;
}

}  // namespace attend
