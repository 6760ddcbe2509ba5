#include "ops/math_type.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/alias.h>
#include <torch/csrc/jit/frontend/tracer.h>

namespace attend {

torch::Tensor to_math_type(const torch::Tensor& x, const torch::Tensor& like) {
  if (!torch::jit::tracer::isTracing()) return x.to(at::toOpMathType(like.scalar_type()));
  // The dtype of a sum is the wider one of float32 and the dtype of `like`. Without the alias, the
  // tracer would take later uses of `x` for uses of the result, if both have the same dtype.
  const auto target = like.new_zeros({1}) + like.new_zeros({1}, torch::kFloat);
  return at::alias(x).type_as(target);
}

}  // namespace attend
