#pragma once

#include "export/onnx/call.h"

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

}  // namespace attend::onnx
