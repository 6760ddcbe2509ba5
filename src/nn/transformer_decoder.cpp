#include "attend/nn/transformer_decoder.h"

#include "nn/checks.h"
#include "nn/layer_stack.h"
#include "nn/stack_cache.h"

namespace attend {

TransformerDecoderImpl::TransformerDecoderImpl(const TransformerDecoderOptions& options)
    : options(options) {
  reset();
}

void TransformerDecoderImpl::reset() {
  const auto& block = options.block();
  use("blocks", &TransformerDecoderImpl::blocks, make_blocks<DecoderBlock>(options));
  use("norm", &TransformerDecoderImpl::norm,
      options.final_norm()
          ? make_module("norm", block.residual().norm(), block.attention().embed_dim())
          : torch::nn::AnyModule());
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

KvCache TransformerDecoderImpl::make_cache(int64_t batch_size, int64_t max_seq_len) const {
  return stack_cache(*this, options.block().attention(), options.num_layers(), batch_size,
                     max_seq_len);
}

void TransformerDecoderImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TransformerDecoder(num_layers=" << options.num_layers() << std::boolalpha
         << ", gradient_checkpointing=" << options.gradient_checkpointing() << ")";
}

}  // namespace attend
