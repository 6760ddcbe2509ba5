#include "attend/nn/self_attention.h"

#include "attend/nn/linear.h"
#include "nn/checks.h"
#include "nn/new_layers.h"
#include "ops/attention_call.h"

namespace attend {

SelfAttentionImpl::SelfAttentionImpl(const SelfAttentionOptions& options) : options(options) {
  reset();
}

void SelfAttentionImpl::reset() {
  const int64_t embed_dim = options.embed_dim();
  const int64_t qk_dim = options.qk_dim().value_or(embed_dim);
  const int64_t v_dim = options.v_dim().value_or(embed_dim);
  check_positive("embed_dim", embed_dim);
  check_positive("qk_dim", qk_dim);
  check_positive("v_dim", v_dim);
  if (options.scale()) check_finite("scale", *options.scale());

  using torch::nn::LinearOptions;
  const bool bias = options.bias();
  use("query", &SelfAttentionImpl::query, new_linear(LinearOptions(embed_dim, qk_dim).bias(bias)));
  use("key", &SelfAttentionImpl::key, new_linear(LinearOptions(embed_dim, qk_dim).bias(bias)));
  use("value", &SelfAttentionImpl::value, new_linear(LinearOptions(embed_dim, v_dim).bias(bias)));
}

AttentionOutput SelfAttentionImpl::forward(const torch::Tensor& x, const AttentionArgs& args) {
  check_sequence("SelfAttention", x, options.embed_dim());
  TORCH_CHECK_VALUE(!args.average_attn_weights,
                    "average_attn_weights must be false: SelfAttention has only one head");
  const auto q = apply_linear(x, query), k = apply_linear(x, key), v = apply_linear(x, value);
  const ScoreOptions score_options{.scale = options.scale()};
  MaskSource masks;
  return attend({q, k, v, args, score_options, /*self_attention=*/true}, masks);
}

void SelfAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SelfAttention(embed_dim=" << options.embed_dim()
         << ", qk_dim=" << query->options.out_features()
         << ", v_dim=" << value->options.out_features() << std::boolalpha
         << ", bias=" << options.bias();
  if (options.scale()) stream << ", scale=" << *options.scale();
  stream << ")";
}

}  // namespace attend
