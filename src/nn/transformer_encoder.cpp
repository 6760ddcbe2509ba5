#include "attend/nn/transformer_encoder.h"

#include "nn/checks.h"
#include "nn/layer_stack.h"

namespace attend {

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderOptions& options)
    : options(options) {
  reset();
}

void TransformerEncoderImpl::reset() {
  const auto& block = options.block();
  blocks = register_module("blocks", make_blocks<TransformerBlock>(options));
  norm = make_final_norm(*this, options.final_norm(), block.residual().norm(),
                         block.attention().embed_dim());
}

void TransformerEncoderImpl::check_submodules() const {
  check_registered(*this, {{"blocks", blocks}, {"norm", norm}});
  check_registered(blocks);
}

torch::Tensor TransformerEncoderImpl::forward(const torch::Tensor& x, const AttentionArgs& args,
                                              const ForwardState& state) {
  check_sequence("TransformerEncoder", x, options.block().attention().embed_dim());
  const auto forward = [](TransformerBlockImpl& block, const torch::Tensor& h,
                          const torch::Tensor& /*memory*/, const AttentionArgs& block_args,
                          const AttentionArgs& /*memory_args*/, const ForwardState& layer_state) {
    return block.forward(h, block_args, layer_state);
  };
  const auto y = run_blocks<TransformerBlock>(blocks, x, /*memory=*/{}, args, /*memory_args=*/{},
                                              state, options.gradient_checkpointing(), forward);
  return norm.is_empty() ? y : norm.forward(y);
}

void TransformerEncoderImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TransformerEncoder(num_layers=" << options.num_layers() << std::boolalpha
         << ", gradient_checkpointing=" << options.gradient_checkpointing() << ")";
}

}  // namespace attend
