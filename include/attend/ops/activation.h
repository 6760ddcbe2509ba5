#pragma once

#include "attend/enum_names.h"

#include <torch/types.h>

namespace attend {

/// The non-linearity of a feed-forward layer.
enum class Activation {
  relu,
  gelu,       ///< exact, with erf (Hendrycks and Gimpel 2016)
  gelu_tanh,  ///< its tanh approximation, as in GPT-2
  silu,
};

template <>
struct EnumNames<Activation> {
  static constexpr std::array<std::string_view, 4> names{"relu", "gelu", "gelu_tanh", "silu"};
};

/// Applies the activation to each element; the shape stays.
///
///     auto y = activate(x, Activation::gelu);
torch::Tensor activate(const torch::Tensor& x, Activation activation);

}  // namespace attend
