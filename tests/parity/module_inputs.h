#pragma once

#include "attend/nn/multihead_attention.h"
#include "parity/case.h"

namespace attend::parity {

/// PyTorch's modules take the batch second unless told otherwise, those of this library first.
inline torch::Tensor batch_moved(const Case& a_case, const torch::Tensor& x) {
  return a_case.is("batched") && !a_case.is("batch_first") ? x.transpose(0, 1) : x;
}

/// An input that is a sequence, as this library takes it: (B, N, width) or (N, width).
inline torch::Tensor module_input(const Case& a_case, const std::string& name) {
  return batch_moved(a_case, a_case.input(name));
}

/// An output as PyTorch gave it.
inline torch::Tensor module_output(const Case& a_case, const torch::Tensor& output) {
  return batch_moved(a_case, output);
}

/// The masks whose names begin with `prefix`. In those of PyTorch's modules true = may NOT attend,
/// and one for each head is (B*H, T, S).
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
