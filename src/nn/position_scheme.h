#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/ops/masks.h"

#include <string_view>

namespace attend {

/// Throws c10::ValueError in cross-attention, because positions in two different sequences cannot
/// be compared.
inline void check_self_attention(const char* module, const AttentionContext& context) {
  TORCH_CHECK_VALUE(!context.cross, module,
                    " requires self-attention: the two sequences of cross-attention have no common "
                    "positions");
}

/// Returns the lookup key with which `ForwardState::share` shares a tensor between layers. The
/// tensor must depend only on `key_offsets(query, key, args)` and on `numbers`, such as the options
/// of a hook. `name`: name of the tensor.
template <typename... Numbers>
SharedKey offsets_key(std::string_view name, const AttentionContext& context, Numbers... numbers) {
  const auto& args = context.args;
  return SharedKey(name, context.query, {args.positions, args.key_positions}, context.query.dim(),
                   context.query.size(-2), context.key.size(-2), numbers...);
}

/// Adds `bias`, which broadcasts to (..., H, T, S), to `context.options.bias`. `shared`: true if
/// `bias` comes from `ForwardState::share`. If `bias` is then the only bias of a layer, the layers
/// also share the sum of bias and mask.
inline void add_to_scores(const torch::Tensor& bias, bool shared, AttentionContext& context) {
  auto& sum = context.options.bias;
  context.shared_bias = shared && !sum.defined() ? bias : torch::Tensor();
  sum = sum.defined() ? sum + bias : bias;
}

}  // namespace attend
