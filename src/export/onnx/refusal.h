#pragma once

#include <stdexcept>

namespace attend::onnx {

/// Why something cannot be said in ONNX. What it is, whoever catches this adds.
class Refusal : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace attend::onnx
