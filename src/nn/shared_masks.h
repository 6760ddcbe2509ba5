#pragma once

#include "attend/nn/attention_hook.h"
#include "ops/attention_call.h"
#include "ops/block_attention.h"
#include "ops/prepared_mask.h"

namespace attend {

/// The masks and biases of an attention module. Layers with the same arguments share the mask. They
/// share the sum of mask and bias only if they also share the bias.
class SharedMasks : public MaskSource {
 public:
  explicit SharedMasks(AttentionContext& context) : context_(context) {}

  bool has_offset_bias() const override { return !context_.offset_biases.empty(); }

  torch::Tensor offset_bias(const AttentionCall& call) override {
    torch::Tensor sum;
    for (auto* bias : context_.offset_biases) {
      const auto offsets = all_offsets(call.query, call.key).unsqueeze(0);
      const auto values = bias->bias_of(offsets, context_).squeeze(-2);  // (H, S + T - 1)
      sum = sum.defined() ? sum + values : values;
    }
    return sum;
  }

  PreparedMask mask(const AttentionCall& call) override {
    const auto& [query, key, value, args, _, self_attention] = call;
    for (auto* bias : context_.offset_biases) bias->add_bias(context_);
    const auto& options = context_.options;  // the options of the call, with these biases
    const SharedKey inputs("mask", query,
                           {args.mask, args.key_mask, args.segments, args.key_segments,
                            args.positions, args.key_positions},
                           query.dim(), query.size(-2), key.size(-2), args.causal,
                           args.sliding_window, context_.cross, computes_weights(args, options),
                           options.bias.defined(), options.scale.value_or(1.0) > 0.0);
    const auto mask = context_.state.share(&SharedTensors::masks, inputs, [&] {
      return prepare_mask(call.query, call.key, call.args, context_.options, call.self_attention);
    });
    if (!options.bias.defined()) return mask;
    const auto with_bias = [&] { return add_bias(mask, context_.options.bias, call.query); };
    if (!options.bias.is_same(context_.shared_bias)) return with_bias();
    return context_.state.share(
        &SharedTensors::biased_masks,
        {"mask_with_bias", query, {mask.mask, mask.fully_masked_rows, options.bias}}, with_bias);
  }

 private:
  AttentionContext& context_;
};

}  // namespace attend
