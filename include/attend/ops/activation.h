#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"

#include <torch/types.h>

namespace attend {

/// Activation function of a feed-forward layer.
enum class Activation {
  relu,        ///< max(x, 0)
  gelu,        ///< exact, with erf (Hendrycks and Gimpel 2016)
  gelu_tanh,   ///< tanh approximation of gelu, as in GPT-2
  silu,        ///< x * sigmoid(x), also called swish
  relu2,       ///< relu squared, as in Primer (So et al. 2021)
  glu,         ///< gated by sigmoid (Dauphin et al. 2017)
  geglu,       ///< gated by exact gelu (Shazeer 2020)
  geglu_tanh,  ///< gated by the tanh approximation of gelu, as in Gemma and T5 v1.1
  swiglu,      ///< gated by silu (Shazeer 2020), as in Llama
};

template <>
struct EnumNames<Activation> {
  static constexpr std::array<std::string_view, 9> names{
      "relu", "gelu", "gelu_tanh", "silu", "relu2", "glu", "geglu", "geglu_tanh", "swiglu"};
};

/// Returns whether the activation is gated: `glu`, `geglu`, `geglu_tanh` or `swiglu`.
ATTEND_API bool is_gated(Activation activation);

/// Applies the activation elementwise to `x` (..., F) and returns a tensor of the same shape. Gated
/// activations map `x` (..., 2F) to (..., F): f(first half) * second half, where f is e.g. silu for
/// `swiglu`. In torch.nn.functional.glu, f is applied to the second half instead. Throws
/// c10::ValueError if the activation is gated and the width is odd.
///
///     auto y = activate(x, Activation::gelu);    // (B, T, 64) -> (B, T, 64)
///     auto z = activate(x, Activation::swiglu);  // (B, T, 64) -> (B, T, 32)
ATTEND_API torch::Tensor activate(const torch::Tensor& x, Activation activation);

}  // namespace attend
