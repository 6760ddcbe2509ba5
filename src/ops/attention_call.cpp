#include "ops/attention_call.h"

#include "ops/attention_checks.h"
#include "ops/attention_kernels.h"
#include "ops/block_attention.h"
#include "ops/prepared_mask.h"

namespace attend {

PreparedMask MaskSource::mask(const AttentionCall& call) {
  const auto mask =
      prepare_mask(call.query, call.key, call.args, call.options, call.self_attention);
  const auto& bias = call.options.bias;
  return bias.defined() ? add_bias(mask, bias, call.query) : mask;
}

AttentionOutput attend(const AttentionCall& call, MaskSource& masks) {
  const auto& [query, key, value, args, options, self_attention] = call;
  check_attention(query, key, value, args, options);
  if (computes_in_blocks(query, key, value, args, options, masks.has_offset_bias())) {
    const auto bias = masks.offset_bias(call);
    return {attend_in_blocks(query, key, value, args, options, bias, self_attention), {}};
  }
  return attention_with_mask(query, key, value, masks.mask(call), args, options);
}

}  // namespace attend
