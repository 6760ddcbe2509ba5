#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"

#include <torch/types.h>

namespace attend {

/// The non-linearity of a feed-forward layer.
enum class Activation {
  relu,
  gelu,       ///< exact, with erf (Hendrycks and Gimpel 2016)
  gelu_tanh,  ///< its tanh approximation, as in GPT-2
  silu,
  relu2,   ///< the square of relu, as in Primer (So et al. 2021)
  glu,     ///< gated by a sigmoid (Dauphin et al. 2017)
  geglu,   ///< gated by the exact gelu (Shazeer 2020), as in Gemma
  swiglu,  ///< gated by silu (Shazeer 2020), as in Llama
};

template <>
struct EnumNames<Activation> {
  static constexpr std::array<std::string_view, 8> names{"relu",  "gelu", "gelu_tanh", "silu",
                                                         "relu2", "glu",  "geglu",     "swiglu"};
};

/// Whether the activation is gated: `glu`, `geglu` or `swiglu`.
ATTEND_API bool is_gated(Activation activation);

/// Applies the activation to each element of `x` (..., F); the shape stays. A gated one takes
/// `x` (..., 2F) and returns (..., F): the first half, through its non-linearity, is the gate that
/// multiplies the second half. torch.nn.functional.glu has them the other way round: there the
/// second half is the gate. Throws c10::ValueError if a gated one finds a width that is odd.
///
///     auto y = activate(x, Activation::gelu);    // (B, T, 64) -> (B, T, 64)
///     auto z = activate(x, Activation::swiglu);  // (B, T, 64) -> (B, T, 32)
ATTEND_API torch::Tensor activate(const torch::Tensor& x, Activation activation);

}  // namespace attend
