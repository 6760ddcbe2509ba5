#pragma once

#include <stdexcept>

namespace attend::onnx {

/// An operator, dtype or argument that has no ONNX equivalent. The message does not name the
/// operator; the catcher adds it.
class UnsupportedOperatorError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace attend::onnx
