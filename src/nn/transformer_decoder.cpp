#include "attend/nn/transformer_decoder.h"

#include "nn/checks.h"
#include "nn/layer_stack.h"

namespace attend {

TransformerDecoderImpl::TransformerDecoderImpl(const TransformerDecoderOptions& options)
    : options(options) {
  reset();
}

void TransformerDecoderImpl::reset() {
  const auto& block = options.block();
  blocks = register_module("blocks", make_blocks<DecoderBlock>(options));
  norm = make_final_norm(*this, options.final_norm(), block.residual().norm(),
                         block.attention().embed_dim());
}

void TransformerDecoderImpl::check_submodules() const {
  check_registered(*this, {{"blocks", blocks}, {"norm", norm}});
  check_registered(blocks);
}

torch::Tensor TransformerDecoderImpl::forward(const torch::Tensor& x, const torch::Tensor& memory,
                                              const AttentionArgs& args,
                                              const AttentionArgs& memory_args,
                                              const ForwardState& state) {
  check_sequence("TransformerDecoder", x, options.block().attention().embed_dim());
  const auto y = run_blocks<DecoderBlock>(blocks, {x, memory, args, memory_args}, state,
                                          options.gradient_checkpointing());
  return norm.is_empty() ? y : norm.forward(y);
}

void TransformerDecoderImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TransformerDecoder(num_layers=" << options.num_layers() << std::boolalpha
         << ", gradient_checkpointing=" << options.gradient_checkpointing() << ")";
}

}  // namespace attend
