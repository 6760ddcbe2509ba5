#include "attend/nn/decoder_block.h"

#include "nn/checks.h"
#include "nn/make_feed_forward.h"
#include "nn/submodules.h"

namespace attend {
namespace {

void check_options(const DecoderBlockOptions& options) {
  const int64_t embed_dim = options.attention().embed_dim();
  TORCH_CHECK_VALUE(options.cross_attention().embed_dim() == embed_dim,
                    "cross_attention's embed_dim (", options.cross_attention().embed_dim(),
                    ") must equal attention's (", embed_dim, ")");
  const int64_t kdim = options.cross_attention().kdim().value_or(embed_dim);
  const int64_t vdim = options.cross_attention().vdim().value_or(embed_dim);
  TORCH_CHECK_VALUE(kdim == vdim, "cross_attention's kdim (", kdim, ") must equal its vdim (", vdim,
                    "): both are the width of the memory");
}

}  // namespace

DecoderBlockImpl::DecoderBlockImpl(const DecoderBlockOptions& options) : options(options) {
  reset();
}

void DecoderBlockImpl::reset() {
  check_options(options);
  const int64_t embed_dim = options.attention().embed_dim();
  use("attention", &DecoderBlockImpl::attention, MultiheadAttention(options.attention()));
  residual1_ = Residual(*this, "1", embed_dim, options.residual());
  use("cross_attention", &DecoderBlockImpl::cross_attention,
      MultiheadAttention(options.cross_attention()));
  const bool one_norm = options.residual().norm_order() == NormOrder::parallel;
  if (!one_norm) residual_cross_ = Residual(*this, "_cross", embed_dim, options.residual());
  use("feed_forward", &DecoderBlockImpl::feed_forward, make_feed_forward(options));
  if (!one_norm) residual2_ = Residual(*this, "2", embed_dim, options.residual());
}

void DecoderBlockImpl::check_submodules() const {
  Cloneable::check_submodules();
  const auto submodules = children();
  for (const auto* residual : {&residual1_, &residual_cross_, &residual2_}) {
    residual->check_registered(*this, submodules);
  }
}

torch::Tensor DecoderBlockImpl::forward(const torch::Tensor& x, const torch::Tensor& memory,
                                        const AttentionArgs& self_args,
                                        const AttentionArgs& memory_args,
                                        const ForwardState& state) {
  check_sequence("DecoderBlock", x, options.attention().embed_dim());
  const int64_t width = options.cross_attention().kdim().value_or(options.attention().embed_dim());
  TORCH_CHECK_VALUE(memory.dim() >= 2 && memory.size(-1) == width, "memory must be (B, S, ", width,
                    ") or (S, ", width, "), found ", memory.sizes());
  const auto attend = [&](const torch::Tensor& h) {
    return attention->forward(h, self_args, state).output;
  };
  const auto attend_memory = [&](const torch::Tensor& h) {
    const ForwardState cross_state{
        .cache = state.cache, .layer = state.layer, .shared = state.shared};
    return cross_attention->cross(h, memory, memory, memory_args, cross_state).output;
  };
  const auto feed = [&](const torch::Tensor& h) { return feed_forward.forward(h); };

  switch (options.residual().norm_order()) {
    case NormOrder::parallel:
      return residual1_(x, [&](const torch::Tensor& h) {
        // The sum is computed in separate statements, because C++ does not define the order of
        // calls in an expression. The order affects the random numbers of dropout.
        auto sum = attend(h);
        sum = sum + attend_memory(h);
        return sum + feed(h);
      });
    case NormOrder::parallel_separate_norms: {
      auto sum = x + residual1_.branch(x, attend);
      sum = sum + residual_cross_.branch(x, attend_memory);
      return sum + residual2_.branch(x, feed);
    }
    default:
      return residual2_(residual_cross_(residual1_(x, attend), attend_memory), feed);
  }
}

void DecoderBlockImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::DecoderBlock(norm_order=" << to_string(options.residual().norm_order()) << ")";
}

}  // namespace attend
