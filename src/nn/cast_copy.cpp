#include "attend/nn/cast_copy.h"

#include "ops/rng_state.h"

#include <torch/utils.h>

namespace attend {

std::shared_ptr<torch::nn::Module> cast_copy(const torch::nn::Module& module,
                                             c10::ScalarType dtype) {
  TORCH_CHECK_VALUE(c10::isFloatingType(dtype), "expected a floating point dtype, found ",
                    c10::toString(dtype));
  const RngGuard guard(rng_state(rng_devices(torch::kCPU)));  // `clone` initializes the copy
  auto copy = module.clone();
  const torch::NoGradGuard no_grad;
  const auto cast = [&](torch::Tensor& tensor) {
    // `Module::to` would cast integers, too.
    if (tensor.defined() && tensor.is_floating_point()) tensor.set_data(tensor.to(dtype));
  };
  for (auto& parameter : copy->parameters()) cast(parameter);
  for (auto& buffer : copy->buffers()) cast(buffer);
  return copy;
}

}  // namespace attend
