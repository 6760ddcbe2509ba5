#include "attend/nn/transformer_block.h"

#include "nn/checks.h"

namespace attend {

TransformerBlockImpl::TransformerBlockImpl(const TransformerBlockOptions& options)
    : options(options) {
  reset();
}

void TransformerBlockImpl::reset() {
  const int64_t embed_dim = options.attention().embed_dim();
  TORCH_CHECK_VALUE(options.feed_forward().embed_dim() == embed_dim, "feed_forward's embed_dim (",
                    options.feed_forward().embed_dim(), ") must equal attention's (", embed_dim,
                    ")");
  check_probability("dropout", options.dropout());
  TORCH_CHECK_VALUE(options.norm_eps() >= 0.0, "norm_eps (", options.norm_eps(),
                    ") must not be negative");

  const auto norm = torch::nn::LayerNormOptions({embed_dim}).eps(options.norm_eps());
  attention = register_module("attention", MultiheadAttention(options.attention()));
  norm1 = register_module("norm1", torch::nn::LayerNorm(norm));
  feed_forward = register_module("feed_forward", FeedForward(options.feed_forward()));
  norm2 = register_module("norm2", torch::nn::LayerNorm(norm));
  dropout = register_module("dropout", torch::nn::Dropout(options.dropout()));
}

torch::Tensor TransformerBlockImpl::forward(const torch::Tensor& x, const AttentionArgs& args) {
  check_width("TransformerBlock", x, options.attention().embed_dim());
  const auto attend = [&](const torch::Tensor& h) {
    return dropout(attention->forward(h, args).output);
  };
  const auto feed = [&](const torch::Tensor& h) { return dropout(feed_forward(h)); };

  if (options.norm_order() == NormOrder::pre) {
    const auto h = x + attend(norm1(x));
    return h + feed(norm2(h));
  }
  const auto h = norm1(x + attend(x));
  return norm2(h + feed(h));
}

void TransformerBlockImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TransformerBlock(norm_order=" << to_string(options.norm_order())
         << ", dropout=" << options.dropout() << ")";
}

}  // namespace attend
