#include "attend/nn/transformer_encoder.h"

#include "nn/checks.h"
#include "nn/decoding_plan.h"
#include "nn/layer_stack.h"
#include "nn/stack_cache.h"

namespace attend {

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderOptions& options)
    : options(options) {
  reset();
}

void TransformerEncoderImpl::reset() {
  const auto& block = options.block();
  use("blocks", &TransformerEncoderImpl::blocks, make_blocks<TransformerBlock>(options));
  use("norm", &TransformerEncoderImpl::norm,
      options.final_norm()
          ? make_module("norm", block.residual().norm(), block.attention().embed_dim())
          : torch::nn::AnyModule());
}

torch::Tensor TransformerEncoderImpl::forward(const torch::Tensor& x, const AttentionArgs& args,
                                              const ForwardState& state) {
  check_sequence("TransformerEncoder", x, options.block().attention().embed_dim());
  auto plan = DecodingPlan::of(*blocks, x, args, state);
  const auto y = plan ? plan->run(x)
                      : run_blocks<TransformerBlock>(blocks, {.x = x, .args = args}, state,
                                                     options.gradient_checkpointing());
  return norm.is_empty() ? y : norm.forward(y);
}

KvCache TransformerEncoderImpl::make_cache(int64_t batch_size, int64_t max_seq_len) const {
  return stack_cache(*this, options.block().attention(), options.num_layers(), batch_size,
                     max_seq_len);
}

void TransformerEncoderImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TransformerEncoder(num_layers=" << options.num_layers() << std::boolalpha
         << ", gradient_checkpointing=" << options.gradient_checkpointing() << ")";
}

}  // namespace attend
