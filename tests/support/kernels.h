#pragma once

#include <functional>
#include <vector>

namespace attend {

/// A call of LibTorch's fused attention kernel on the CPU.
struct FusedCall {
  bool causal;
  bool masked;
};

/// The fused kernels that `run` called on this thread, in order.
///
///     fused_calls([&] { dot_product_attention(q, k, v); }).size();  // 1
std::vector<FusedCall> fused_calls(const std::function<void()>& run);

}  // namespace attend
