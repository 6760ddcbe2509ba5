#pragma once

#include "export/onnx/call.h"
#include "export/onnx/shapes.h"

namespace attend::onnx {

using Numbers = std::vector<int64_t>;

/// One number for each of `count` dimensions of space: one that is given counts for all, none
/// stands for `otherwise`.
inline Numbers for_each_dimension(Call& call, const char* name, std::size_t count,
                                  const Numbers& otherwise) {
  auto numbers = call.has(name) ? call.integers(name) : Numbers();
  if (numbers.empty()) numbers = otherwise;
  if (numbers.size() == 1) numbers.resize(count, numbers.front());
  return numbers;
}

/// `compute(input)`, where an input with `count` dimensions of space but without a batch, which
/// LibTorch takes and ONNX does not, is a batch of one.
template <typename Compute>
Value in_batch(Call& call, Value input, int64_t rank, std::size_t count, const Compute& compute) {
  const bool is_single = rank == static_cast<int64_t>(count) + 1;
  if (!is_single) return compute(input);
  return squeeze(call, compute(unsqueeze(call, input, {0})), {0});
}

}  // namespace attend::onnx
