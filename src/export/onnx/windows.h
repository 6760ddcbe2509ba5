#pragma once

#include "export/onnx/call.h"
#include "export/onnx/shapes.h"

namespace attend::onnx {

using Numbers = std::vector<int64_t>;

/// Returns the argument `name` as `count` numbers, one per spatial dimension. A single number is
/// repeated. If the argument is absent or empty, `default_value` is used instead.
inline Numbers for_each_dimension(Call& call, const char* name, std::size_t count,
                                  const Numbers& default_value) {
  auto numbers = call.has(name) ? call.integers(name) : Numbers();
  if (numbers.empty()) numbers = default_value;
  if (numbers.size() == 1) numbers.resize(count, numbers.front());
  return numbers;
}

/// Returns `compute(input)`. ONNX does not support an unbatched input, which has one channel
/// dimension and `count` spatial dimensions. For such an input, adds a batch dimension before the
/// call of `compute` and removes the dimension afterwards.
template <typename Compute>
Value in_batch(Call& call, Value input, int64_t rank, std::size_t count, const Compute& compute) {
  const bool is_single = rank == static_cast<int64_t>(count) + 1;
  if (!is_single) return compute(input);
  return squeeze(call, compute(unsqueeze(call, input, {0})), {0});
}

}  // namespace attend::onnx
