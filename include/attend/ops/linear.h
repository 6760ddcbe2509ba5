#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace attend {

/// Format of the copies of weights that `prepare_weight` makes for inference.
enum class WeightFormat {
  original,  ///< the dtype of the weight; only the order of the elements in memory is different
  bf16,      ///< bfloat16: half the memory of float32
  int8,      ///< 8 bits per element, and a scale for each row (output feature)
  int4,      ///< 4 bits per element, and a scale for each group of 32 elements of a row
};

template <>
struct EnumNames<WeightFormat> {
  static constexpr std::array<std::string_view, 4> names{"original", "bf16", "int8", "int4"};
};

/// Returns `x` W^T + `bias`, as `torch::linear` does: `x` (..., K), `weight` W (N, K), `bias` (N)
/// or undefined; the result is (..., N). Throws c10::Error if the shapes do not match.
///
/// Without gradients, on a CPU and in float32, the product is computed by the library that is
/// fastest for its size: MKL or oneDNN. Their results differ by rounding errors. If
/// `prepare_weight` was called for the weight, its copy is used. In all other cases (gradients,
/// autocast, traces, other devices and dtypes), `apply_linear` calls `torch::linear`. If the
/// environment variable ATTEND_FAST is 0, it always does.
///
///     auto y = apply_linear(x, feed_forward->up);  // (B, T, K) -> (B, T, N)
ATTEND_API torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                                      const torch::Tensor& bias = {});

/// Calls `apply_linear` with weight and bias of `layer`.
inline torch::Tensor apply_linear(const torch::Tensor& x, const torch::nn::Linear& layer) {
  return apply_linear(x, layer->weight, layer->bias);
}

/// Makes a copy of `weight` (N, K) in a format with which `apply_linear` computes products with few
/// rows faster. The copy belongs to `weight`, is deleted with it, and replaces an earlier copy.
/// Products with `WeightFormat::int8` and `int4` that have more than 8 rows use `weight` itself,
/// since a copy in these formats does not make them faster.
///
/// `apply_linear` stops using the copy if `weight` changes in place or is moved, and after a call
/// that computes gradients of `weight`: call `prepare_weight` again after training. Changes through
/// `weight.data()` are not noticed otherwise.
///
/// Does nothing if a copy would not make products faster, or if the format is not supported for the
/// weight. The weight must have at least 131,072 elements, be on a CPU, and have the dtype float32
/// or, for `original`, bfloat16. `int8` and `int4` require that K is a multiple of 32. `original`
/// and `bf16` require a processor with AVX-512. Also does nothing if ATTEND_FAST is 0.
///
///     prepare_weight(feed_forward->up->weight, WeightFormat::int8);
ATTEND_API void prepare_weight(const torch::Tensor& weight, WeightFormat format);

}  // namespace attend
