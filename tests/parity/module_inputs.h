#pragma once

#include "attend/nn/multihead_attention.h"
#include "parity/case.h"

namespace attend::parity {

/// Swaps batch and sequence dimensions if the case is batched and has batch_first=False. attend's
/// modules are batch first.
inline torch::Tensor to_batch_first(const Case& a_case, const torch::Tensor& x) {
  return a_case.is("batched") && !a_case.is("batch_first") ? x.transpose(0, 1) : x;
}

/// Returns an input sequence, batch first: (B, N, width) or (N, width).
inline torch::Tensor module_input(const Case& a_case, const std::string& name) {
  return to_batch_first(a_case, a_case.input(name));
}

/// Returns `output` with its dimensions in the same order as in the output of PyTorch's module.
inline torch::Tensor module_output(const Case& a_case, const torch::Tensor& output) {
  return to_batch_first(a_case, output);
}

/// Reads the masks and the option `causal` whose names in the case begin with `prefix`. Converts
/// them to arguments of attend's modules. In PyTorch's modules, true means may NOT attend, and a
/// mask per head is (B*H, T, S).
inline AttentionArgs module_args(const Case& a_case, const std::string& prefix) {
  AttentionArgs args{.mask = a_case.input(prefix + "mask"), .causal = a_case.is(prefix + "causal")};
  if (args.mask.defined()) {
    if (args.mask.scalar_type() == torch::kBool) args.mask = args.mask.logical_not();
    if (args.mask.dim() == 3 && a_case.is("batched")) {
      args.mask = args.mask.unflatten(0, {-1, a_case.get<int64_t>("heads")});  // (B, H, T, S)
    }
  }
  const auto padding = a_case.input(prefix + "key_padding_mask");
  if (padding.defined()) args.key_mask = padding.logical_not();
  return args;
}

}  // namespace attend::parity
