#include "attend/nn/relative_bias.h"

#include "nn/position_scheme.h"

#include <torch/nn/init.h>

#include <cmath>

namespace attend {

RelativeBiasImpl::RelativeBiasImpl(const AttentionDims& shape, const RelativeBiasOptions& options)
    : shape(shape), options(options) {
  reset();
}

void RelativeBiasImpl::reset() {
  check_buckets(options);
  bias = register_module("bias", torch::nn::Embedding(options.num_buckets, shape.num_heads));
  torch::nn::init::normal_(bias->weight, 0.0,
                           1.0 / std::sqrt(static_cast<double>(shape.embed_dim)));
}

void RelativeBiasImpl::before_attention(AttentionContext& context) {
  check_one_sequence("RelativeBias", context);
  auto buckets = relative_buckets(key_offsets(context.query, context.key, context.args), options);
  if (buckets.dim() == 2) buckets = buckets.unsqueeze(0);  // (..., 1, T, S)
  const auto of_heads = bias(buckets).transpose(-4, -1);   // (..., H, T, S, 1)
  add_to_scores(of_heads.squeeze(-1), context);
}

void RelativeBiasImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::RelativeBias(num_buckets=" << options.num_buckets
         << ", max_distance=" << options.max_distance << std::boolalpha
         << ", bidirectional=" << options.bidirectional << ")";
}

AttentionHookFactory relative_bias(const RelativeBiasOptions& options) {
  return {"relative_bias", [options](const AttentionDims& shape) {
            return std::make_shared<RelativeBiasImpl>(shape, options);
          }};
}

}  // namespace attend
