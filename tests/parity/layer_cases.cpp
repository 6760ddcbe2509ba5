// Computes the results of attend for the cases of TransformerEncoderLayer, TransformerDecoderLayer
// and RMSNorm.
#include "attend/nn/decoder_block.h"
#include "attend/nn/norms.h"
#include "attend/nn/transformer_block.h"
#include "parity/case.h"
#include "parity/module_inputs.h"

#include <optional>

namespace attend::parity {
namespace {

/// Returns the options shared by encoder and decoder layers.
template <typename BlockOptions>
BlockOptions block_options(const Case& a_case) {
  const bool bias = a_case.is("bias");
  const auto width = a_case.get<int64_t>("width");
  BlockOptions options(width, a_case.get<int64_t>("heads"));
  options.attention().bias(bias);
  options.feed_forward(
      FeedForwardOptions(width)
          .dim_feedforward(a_case.get<int64_t>("hidden"))
          .activation(from_string<Activation>(a_case.get<std::string>("activation")).value())
          .bias(bias));
  options.residual()
      .norm(layer_norm(a_case.get<double>("eps"), bias))
      .norm_order(a_case.is("norm_first") ? NormOrder::pre : NormOrder::post);
  return options;
}

}  // namespace

Computed run_encoder(const Case& a_case) {
  TransformerBlock block(block_options<TransformerBlockOptions>(a_case));
  copy_parameters(a_case, *block);
  const auto output = block->forward(module_input(a_case, "src"), module_args(a_case, "src_"));
  return {{{"output", module_output(a_case, output)}}, block.ptr()};
}

Computed run_decoder(const Case& a_case) {
  auto options = block_options<DecoderBlockOptions>(a_case);
  options.cross_attention().bias(a_case.is("bias"));
  DecoderBlock block(options);
  copy_parameters(a_case, *block);
  const auto output = block->forward(module_input(a_case, "tgt"), module_input(a_case, "memory"),
                                     module_args(a_case, "tgt_"), module_args(a_case, "memory_"));
  return {{{"output", module_output(a_case, output)}}, block.ptr()};
}

Computed run_rms_norm(const Case& a_case) {
  const auto eps = a_case.options.at("eps");
  RMSNorm norm(RMSNormOptions(a_case.get<int64_t>("width"))
                   .eps(eps.is_null() ? std::nullopt : std::optional(eps.get<double>())));
  copy_parameters(a_case, *norm);
  return {{{"output", norm(a_case.input("x"))}}, norm.ptr()};
}

}  // namespace attend::parity
