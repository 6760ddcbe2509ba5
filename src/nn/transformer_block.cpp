#include "attend/nn/transformer_block.h"

#include "nn/checks.h"
#include "nn/decoding_plan.h"
#include "nn/make_feed_forward.h"
#include "nn/submodules.h"

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
  if (state.shared == nullptr) {  // in a stack, the stack decides
    if (auto plan = DecodingPlan::of(*this, x, args, state)) return plan->run(x);
  }
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

void TransformerBlockImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TransformerBlock(norm_order=" << to_string(options.residual().norm_order())
         << ")";
}

}  // namespace attend
