#include "attend/nn/relative_bias.h"

#include "nn/position_scheme.h"
#include "nn/submodules.h"

#include <torch/nn/init.h>

#include <cmath>

namespace attend {

RelativeBiasImpl::RelativeBiasImpl(const AttentionDims& dims, const RelativeBiasOptions& options,
                                   bool use_first)
    : dims(dims), options(options), use_first(use_first) {
  reset();
}

void RelativeBiasImpl::reset() {
  check_buckets(options);
  if (use_first) return;
  bias = register_module("bias", torch::nn::Embedding(options.num_buckets, dims.num_heads));
  torch::nn::init::normal_(bias->weight, 0.0, 1.0 / std::sqrt(static_cast<double>(dims.embed_dim)));
}

void RelativeBiasImpl::before_attention(AttentionContext& context) {
  check_self_attention("RelativeBias", context);
  check_submodules(*this, {{"bias", bias}});
  const auto buckets_of = [this](const torch::Tensor& offsets) {
    const auto buckets = relative_buckets(offsets, options);
    return buckets.dim() == 2 ? buckets.unsqueeze(0) : buckets;  // (..., 1, T, S)
  };
  const auto bias_of = [weight = table(context.state)](const torch::Tensor& buckets) {
    return torch::embedding(weight, buckets).transpose(-4, -1).squeeze(-1);  // (..., H, T, S)
  };
  const auto add_all = [this, buckets_of, bias_of](AttentionContext& each) {
    const auto key = offsets_key("relative_buckets", each, options.num_buckets,
                                 options.max_distance, options.bidirectional);
    const auto buckets = each.state.share(
        key, [&] { return buckets_of(key_offsets(each.query, each.key, each.args)); });
    add_to_scores(bias_of(buckets), /*shared=*/false, each);
  };
  context.offset_biases.push_back(
      {[=](const torch::Tensor& offsets) { return bias_of(buckets_of(offsets)); }, add_all});
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
  TORCH_CHECK_VALUE(first->sizes() == shape, "the relative_bias of the first layer has the table ",
                    first->sizes(), ", shared_relative_bias expects ", c10::IntArrayRef(shape));
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
