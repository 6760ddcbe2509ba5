#pragma once

#include <stdexcept>

namespace attend::onnx {

/// Error for an operator, dtype or argument without an ONNX equivalent. The message does not name
/// the operator; the code that catches the error adds the name.
class UnsupportedOperatorError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace attend::onnx
