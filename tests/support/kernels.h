#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace attend {

/// A call of LibTorch's fused CPU attention kernel.
struct FusedCall {
  bool causal;  // is_causal of the call
  bool masked;  // the call has a mask
};

/// Calls `run` and returns the calls of the fused kernel that it makes on this thread, in order.
///
///     fused_calls([&] { dot_product_attention(q, k, v); }).size();  // 1
std::vector<FusedCall> fused_calls(const std::function<void()>& run);

/// Returns the names of the operators that `run` calls on this thread.
///
///     operators_of([&] { torch::relu(x); }).count("aten::relu");  // 1
std::set<std::string> operators_of(const std::function<void()>& run);

}  // namespace attend
