#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/ops/activation.h"

#include <torch/types.h>

namespace attend {

/// Format of the copy of a weight that `prepare_weight` makes for inference. `bf16`, `int8` and
/// `int4` are weight-only quantization. With `bf16`, inputs and outputs of the product are rounded
/// to bfloat16; with `int8` and `int4`, each row of the input is rounded to 16-bit integers with
/// one scale. All other computations keep their dtype.
enum class WeightFormat {
  packed,  ///< the dtype of the weight, in oneDNN's blocked memory format; exact up to rounding
  bf16,    ///< bfloat16 in oneDNN's blocked memory format
  int8,    ///< 8 bits per element, symmetric, one scale per output channel
  int4,    ///< 4 bits per element, asymmetric, group size 32: a scale and an offset of 8 bits per
           ///< group, and the units of the two per output channel
};

template <>
struct EnumNames<WeightFormat> {
  static constexpr std::array<std::string_view, 4> names{"packed", "bf16", "int8", "int4"};
};

/// Returns `x` W^T + `bias`, as `torch::linear` does: `x` (..., K), `weight` W (N, K), `bias` (N)
/// or undefined; the result is (..., N). Throws c10::Error if the shapes do not match.
///
/// The following products on a CPU use other kernels than `torch::linear`. Their results differ by
/// rounding errors.
/// - If no gradients are computed: products with a weight for which `prepare_weight` was called use
///   its copy. Products of 1 to 8 rows of `x` with a weight in float32 whose rows are contiguous
///   use kernels of this library, which read the weight at the speed of the memory.
/// - On AMD processors with AVX2, other large products in float32 use oneDNN instead of MKL, and so
///   do their gradients.
///
/// While a `NoInferenceKernelsGuard` exists, only the last of these are used. Under autocast, in
/// traces, on other devices and if the environment variable ATTEND_FAST is 0, this function always
/// calls `torch::linear`.
///
///     auto y = apply_linear(x, feed_forward->up->weight, feed_forward->up->bias);  // (B, T, N)
ATTEND_API torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                                      const torch::Tensor& bias = {});

/// Returns `activate(apply_linear(x, weight, bias), activation)`. If oneDNN computes the product
/// without gradients, it applies `gelu`, `gelu_tanh` or `silu` in the same call.
///
///     auto h = apply_linear(x, feed_forward->up->weight, {}, Activation::gelu);
ATTEND_API torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                                      const torch::Tensor& bias, Activation activation);

/// Makes a copy of `weight` (N, K) with which `apply_linear` computes products with few rows
/// faster, and deletes an earlier copy. The copy is kept in addition to the weight and is deleted
/// with it. `apply_linear` uses the weight itself where a copy is not faster: for one row
/// (`packed`), or for more than 8 rows (`int8` and `int4`). Returns false if there is no copy,
/// because the format is not supported for the weight or would not be faster.
///
/// The weight must have at least 131,072 elements, be on a CPU, and have the dtype float32 or, for
/// `packed`, bfloat16. `packed` requires a processor with AVX-512, `bf16` one with AVX-512 BF16,
/// and both require that LibTorch is built with oneDNN. ATTEND_FAST must not be 0.
///
/// With `int8` and `int4`, NaN or infinity in a row of `x` makes all outputs of this row NaN. In a
/// row of the weight, it makes all outputs of this channel NaN.
///
/// `apply_linear` stops using the copy if the weight changes in place or is moved, and after any
/// call with gradients enabled for the weight: create a torch::NoGradGuard before each forward
/// pass. Writes that LibTorch does not count, through `weight.data()` or a data pointer, are
/// noticed if they change one of 16 elements, which are the largest of 16 equal parts of the
/// weight: for example if they scale, average or replace the weight, but not if they set a few
/// elements. Call `prepare_weight` again after such a write and after training. Weights that were
/// created in inference mode are not supported. No other thread may use the weight during the call.
///
///     prepare_weight(feed_forward->up->weight, WeightFormat::int8);
ATTEND_API bool prepare_weight(const torch::Tensor& weight, WeightFormat format);

}  // namespace attend
