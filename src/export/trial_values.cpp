#include "export/trial_values.h"

namespace attend {

bool supports_other_values(const torch::Tensor& input) {
  const auto dtype = input.scalar_type();
  return !input.is_complex() && !c10::isFloat8Type(dtype) && !c10::isBarebonesUnsignedType(dtype);
}

torch::Tensor with_values(const torch::Tensor& input, Values values) {
  if (values == Values::as_in_example || input.numel() == 0 || !supports_other_values(input))
    return input;
  if (values == Values::uniform) return input.flatten()[0].expand_as(input).clone();
  if (values == Values::half_zero) {
    const auto options = torch::TensorOptions().device(input.device());
    const auto keeps = torch::arange(input.numel(), options).remainder(2).view(input.sizes());
    const bool is_integral = torch::isIntegralType(input.scalar_type(), /*includeBool=*/false);
    return torch::where(keeps == 1, input, is_integral ? input.min() : torch::zeros_like(input));
  }
  if (input.scalar_type() == torch::kBool) return input.logical_not();
  if (values == Values::one_less) {
    const bool has_room = !input.is_floating_point() && input.min().item<int64_t>() > 0;
    return has_room ? input - 1 : input;
  }
  if (values == Values::one_more) {
    // On a GPU, integers are not increased: an index out of range would make the CUDA context
    // unusable for the rest of the process.
    return input.is_cuda() && !input.is_floating_point() ? input : input + 1;
  }
  return input.is_floating_point() ? -input : input.max() + input.min() - input;
}

}  // namespace attend
