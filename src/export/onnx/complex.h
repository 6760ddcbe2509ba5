#pragma once

#include "export/onnx/call.h"

namespace attend::onnx {

/// Real and imaginary parts of complex numbers.
struct Complex {
  Value re;
  Value im;
};

/// Returns the parts of the value of a complex tensor (see `is_complex`).
Complex parts_of(Call& call, Value value);
/// Returns the value of a complex tensor. The parts must have the same shape.
Value joined(Call& call, const Complex& parts);

}  // namespace attend::onnx
