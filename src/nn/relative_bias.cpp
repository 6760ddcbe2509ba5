#include "attend/nn/relative_bias.h"

#include "nn/position_scheme.h"
#include "ops/math_type.h"

#include <torch/nn/init.h>

#include <cmath>

namespace attend {
namespace {

/// Returns the buckets (..., 1, T, S) of `offsets` (T, S) or (B, 1, T, S).
torch::Tensor buckets_of(const torch::Tensor& offsets, const RelativeBiasOptions& options) {
  const auto buckets = relative_buckets(offsets, options);
  return buckets.dim() == 2 ? buckets.unsqueeze(0) : buckets;
}

/// Looks up `buckets` (..., 1, T, S) in `table` (num_buckets, H). Returns the bias (..., H, T, S).
torch::Tensor look_up(const torch::Tensor& table, const torch::Tensor& buckets) {
  // A table in a half type is converted to float32. The gradient of a bucket is a sum over many
  // pairs of tokens, and half types are too imprecise for this sum.
  const auto bias = torch::embedding(to_math_type(table, table), buckets).type_as(table);
  return bias.transpose(-4, -1).squeeze(-1);
}

}  // namespace

RelativeBiasImpl::RelativeBiasImpl(const AttentionDims& dims, const RelativeBiasOptions& options,
                                   bool use_first)
    : dims(dims), options(options), use_first(use_first) {
  reset();
}

void RelativeBiasImpl::reset() {
  check_buckets(options);
  if (use_first) return;
  use("bias", &RelativeBiasImpl::bias, torch::nn::Embedding(options.num_buckets, dims.num_heads));
  torch::nn::init::normal_(bias->weight, 0.0, 1.0 / std::sqrt(static_cast<double>(dims.embed_dim)));
}

void RelativeBiasImpl::before_attention(AttentionContext& context) {
  check_self_attention("RelativeBias", context);
  context.offset_biases.push_back(this);
}

torch::Tensor RelativeBiasImpl::bias_of(const torch::Tensor& offsets,
                                        const AttentionContext& context) {
  return look_up(table(context.state), buckets_of(offsets, options));
}

void RelativeBiasImpl::add_bias(AttentionContext& context) {
  const auto key = offsets_key("relative_buckets", context, options.num_buckets,
                               options.max_distance, options.bidirectional);
  const auto buckets = context.state.share(&SharedTensors::offsets, key, [&] {
    return buckets_of(key_offsets(context.query, context.key, context.args), options);
  });
  add_to_scores(look_up(table(context.state), buckets), /*shared=*/false, context);
}

torch::Tensor RelativeBiasImpl::table(const ForwardState& state) const {
  auto* first = state.first_relative_bias;
  if (!use_first) {
    if (first != nullptr && !first->defined()) *first = bias->weight;
    return bias->weight;
  }
  TORCH_CHECK_VALUE(first != nullptr && first->defined(),
                    "shared_relative_bias requires a stack whose first layer has a relative_bias; "
                    "found none");
  const std::vector<int64_t> shape{options.num_buckets, dims.num_heads};
  TORCH_CHECK_VALUE(
      first->sizes() == shape, "the relative_bias of the first layer has a table ", first->sizes(),
      ", shared_relative_bias expects (num_buckets, num_heads) = ", c10::IntArrayRef(shape));
  return *first;
}

void RelativeBiasImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::RelativeBias(num_buckets=" << options.num_buckets
         << ", max_distance=" << options.max_distance << std::boolalpha
         << ", bidirectional=" << options.bidirectional << ", use_first=" << use_first << ")";
}

AttentionHookFactory relative_bias(const RelativeBiasOptions& options) {
  return {"relative_bias", [options](const AttentionDims& dims) {
            return std::make_shared<RelativeBiasImpl>(dims, options);
          }};
}

AttentionHookFactory shared_relative_bias(const RelativeBiasOptions& options) {
  return {"relative_bias", [options](const AttentionDims& dims) {
            return std::make_shared<RelativeBiasImpl>(dims, options, /*use_first=*/true);
          }};
}

}  // namespace attend
