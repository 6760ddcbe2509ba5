#include "attend/nn/self_attention.h"

#include "nn/checks.h"
#include "ops/attention_checks.h"
#include "ops/prepared_mask.h"

#include <cmath>

namespace attend {
namespace {

double score_factor(const SelfAttentionOptions& options, int64_t qk_dim) {
  switch (options.scale()) {
    case ScoreScale::none:
      return kUnscaled;
    case ScoreScale::key_width:
      return 1.0 / std::sqrt(static_cast<double>(qk_dim));
    case ScoreScale::model_width:
      return 1.0 / std::sqrt(static_cast<double>(options.embed_dim()));
  }
  TORCH_CHECK_VALUE(false, "unknown scale ", static_cast<int>(options.scale()));
}

}  // namespace

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

  using torch::nn::LinearOptions;
  const bool bias = options.bias();
  query = register_module("query", torch::nn::Linear(LinearOptions(embed_dim, qk_dim).bias(bias)));
  key = register_module("key", torch::nn::Linear(LinearOptions(embed_dim, qk_dim).bias(bias)));
  value = register_module("value", torch::nn::Linear(LinearOptions(embed_dim, v_dim).bias(bias)));
}

AttentionOutput SelfAttentionImpl::forward(const torch::Tensor& x, const AttentionArgs& args) {
  check_sequence("SelfAttention", x, options.embed_dim());
  TORCH_CHECK_VALUE(
      !args.average_attn_weights,
      "average_attn_weights (true) must be false: SelfAttention has one head, found input ",
      x.sizes());
  const double factor = score_factor(options, query->options.out_features());
  const auto q = query(x), k = key(x), v = value(x);
  const ScoreOptions score_options{.scale = factor};
  check_attention(q, k, v, args, score_options);
  const auto mask = prepare_mask(q, k, args, score_options, /*self_attention=*/true);
  return attention_with_mask(q, k, v, mask, args, score_options);
}

void SelfAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SelfAttention(embed_dim=" << options.embed_dim()
         << ", qk_dim=" << query->options.out_features()
         << ", v_dim=" << value->options.out_features() << std::boolalpha
         << ", bias=" << options.bias() << ", scale=" << to_string(options.scale()) << ")";
}

}  // namespace attend
