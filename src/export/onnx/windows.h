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

/// A dimension over which windows move. Element j of window i has the index i*stride + j*dilation.
struct Windows {
  int64_t size = 1;  ///< elements in a window
  int64_t stride = 1;
  int64_t dilation = 1;
};

/// Returns the windows over `dimension` of `value`. The dimension, of the given length (int64 of
/// shape (1)), is replaced by two dimensions: (windows, elements in a window).
Value windows_over(Call& call, Value value, int64_t dimension, Value length,
                   const Windows& windows);

}  // namespace attend::onnx
