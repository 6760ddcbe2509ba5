#include "attend/nn/relative_bias.h"

#include "nn/position_scheme.h"
#include "nn/submodules.h"

#include <torch/nn/init.h>

#include <cmath>

namespace attend {

RelativeBiasImpl::RelativeBiasImpl(const AttentionDims& dims, const RelativeBiasOptions& options)
    : dims(dims), options(options) {
  reset();
}

void RelativeBiasImpl::reset() {
  check_buckets(options);
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
  const auto bias_of = [this](const torch::Tensor& buckets) {
    return bias(buckets).transpose(-4, -1).squeeze(-1);  // (..., H, T, S)
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

void RelativeBiasImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::RelativeBias(num_buckets=" << options.num_buckets
         << ", max_distance=" << options.max_distance << std::boolalpha
         << ", bidirectional=" << options.bidirectional << ")";
}

AttentionHookFactory relative_bias(const RelativeBiasOptions& options) {
  return {"relative_bias", [options](const AttentionDims& dims) {
            return std::make_shared<RelativeBiasImpl>(dims, options);
          }};
}

}  // namespace attend
