#include "attend/nn/transformer_block.h"

#include "nn/checks.h"
#include "nn/make_feed_forward.h"
#include "nn/step_norm.h"
#include "nn/submodules.h"

#include <typeinfo>

namespace attend {

TransformerBlockImpl::TransformerBlockImpl(const TransformerBlockOptions& options)
    : options(options) {
  reset();
}

void TransformerBlockImpl::reset() {
  const int64_t embed_dim = options.attention().embed_dim();
  use("attention", &TransformerBlockImpl::attention, MultiheadAttention(options.attention()));
  residual1_ = Residual(*this, "1", embed_dim, options.residual());
  use("feed_forward", &TransformerBlockImpl::feed_forward, make_feed_forward(options));
  if (options.residual().norm_order() != NormOrder::parallel) {
    residual2_ = Residual(*this, "2", embed_dim, options.residual());
  }
}

void TransformerBlockImpl::check_submodules() const {
  Cloneable::check_submodules();
  const auto submodules = children();
  for (const auto* residual : {&residual1_, &residual2_}) {
    residual->check_registered(*this, submodules);
  }
}

torch::Tensor TransformerBlockImpl::forward(const torch::Tensor& x, const AttentionArgs& args,
                                            const ForwardState& state) {
  check_sequence("TransformerBlock", x, options.attention().embed_dim());
  if (const auto y = decoding_step(x, args, state); y.defined()) return y;
  const auto attend = [&](const torch::Tensor& h) {
    return attention->forward(h, args, state).output;
  };
  const auto feed = [&](const torch::Tensor& h) { return feed_forward.forward(h); };

  if (options.residual().norm_order() == NormOrder::parallel) {
    return residual1_(x, [&](const torch::Tensor& h) {
      // Separate statements, because C++ does not define the order of calls in an expression. The
      // order affects the random numbers of dropout.
      const auto attended = attend(h);
      return attended + feed(h);
    });
  }
  if (options.residual().norm_order() == NormOrder::parallel_separate_norms) {
    const auto sum = x + residual1_.branch(x, attend);
    return sum + residual2_.branch(x, feed);
  }
  const auto h = residual1_(x, attend);
  return residual2_(h, feed);
}

/// Returns the output of a decoding step whose residual branches are computed by one call each.
/// Otherwise returns an undefined tensor.
torch::Tensor TransformerBlockImpl::decoding_step(const torch::Tensor& x, const AttentionArgs& args,
                                                  const ForwardState& state) {
  if (state.cache == nullptr || options.residual().norm_order() != NormOrder::pre) return {};
  const auto norm1 = step_norm(residual1_.only_norm());
  const auto norm2 = step_norm(residual2_.only_norm());
  const auto pointer = feed_forward.ptr();
  auto& feed = *pointer;
  if (!norm1 || !norm2 || typeid(feed) != typeid(FeedForwardImpl)) return {};
  const auto h = attention->decoding_step(x, &*norm1, args, state);
  if (!h.defined()) return {};
  const auto y = static_cast<FeedForwardImpl&>(feed).decoding_step(h, &*norm2);
  if (y.defined()) return y;
  return residual2_(h, [&](const torch::Tensor& input) { return feed_forward.forward(input); });
}

void TransformerBlockImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TransformerBlock(norm_order=" << to_string(options.residual().norm_order())
         << ")";
}

}  // namespace attend
