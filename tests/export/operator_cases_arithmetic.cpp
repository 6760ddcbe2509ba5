#include "export/operator_case.h"

#include <torch/types.h>

namespace attend {
namespace {

using T = torch::Tensor;

/// Returns another tensor with the shape and dtype of `x`. It contains no zeros.
T other(const T& x) {
  const auto flipped = x.flip({-1});
  return torch::where(flipped.abs() > 0.1, flipped, 2);
}

std::vector<ExportCase> sums_and_products() {
  OperatorTable with(floats());
  with("add", [](T x) { return x + other(x); });
  with("add_scalar", [](T x) { return x + 1.5; });
  with("add_times_alpha", [](T x) { return torch::add(x, other(x), 2); });
  with("add_scalar_times_alpha", [](T x) { return torch::add(x, 3, 0.5); });
  with("sub", [](T x) { return x - other(x); });
  with("sub_scalar", [](T x) { return x - 1; });
  with("sub_times_alpha", [](T x) { return torch::sub(x, other(x), 2); });
  with("sub_from_scalar", [](T x) { return torch::rsub(x, 2); });
  with("sub_from_scalar_times_alpha", [](T x) { return torch::rsub(x, 2, 3); });
  with("sub_from_tensor", [](T x) { return torch::rsub(x, other(x), 3); });
  with("mul", [](T x) { return x * other(x); });
  with("mul_scalar", [](T x) { return x * 2.5; });
  with("addcmul", [](T x) { return torch::addcmul(x, x, other(x)); });
  with("addcmul_times_value", [](T x) { return torch::addcmul(x, x, other(x), 2); });
  with("addcdiv", [](T x) { return torch::addcdiv(x, x, x.abs() + 1, 0.5); });
  with("lerp", [](T x) { return torch::lerp(x, other(x), 0.3); });
  with("lerp_by_tensor", [](T x) { return torch::lerp(x, other(x), x); });
  with("broadcast_row", [](T x) { return x + x.select(1, 0).unsqueeze(1); });
  with("zero_dim_tensor", [](T x) { return x * torch::tensor(3); });
  with("mixed_types",
       [](T x) { return x * x.to(torch::kInt) + (x.to(torch::kHalf) > 0) + x.to(torch::kDouble); });
  return with.take();
}

/// Division, floor division and remainders, with positive and negative numbers.
void add_divisions(OperatorTable& with) {
  with("div", [](T x) { return x / other(x); });
  with("div_scalar", [](T x) { return x / 4; });
  with("div_floor", [](T x) { return torch::div(x, other(x), "floor"); });
  with("div_floor_scalar", [](T x) { return torch::div(x, -4, "floor"); });
  with("div_trunc", [](T x) { return torch::div(x, other(x), "trunc"); });
  with("div_trunc_scalar", [](T x) { return torch::div(x, -4, "trunc"); });
  with("floor_divide", [](T x) { return torch::floor_divide(x, other(x)); });
  with("floor_divide_scalar", [](T x) { return torch::floor_divide(x, -4); });
  with("remainder", [](T x) { return x.remainder(other(x)); });
  with("remainder_scalar", [](T x) { return x.remainder(3); });
  with("remainder_negative_scalar", [](T x) { return x.remainder(-3); });
  with("remainder_of_scalar", [](T x) { return torch::remainder(7, other(x)); });
  with("fmod", [](T x) { return x.fmod(other(x)); });
  with("fmod_scalar", [](T x) { return x.fmod(3); });
  with("fmod_negative_scalar", [](T x) { return x.fmod(-3); });
}

void add_powers(OperatorTable& with) {
  with("pow_2", [](T x) { return x.pow(2); });
  with("pow_3", [](T x) { return x.pow(3); });
  with("pow_of_scalar", [](T x) { return torch::pow(2, x.abs()); });
  with("pow_tensor", [](T x) { return x.abs().pow(x.abs() / 3); });
}

std::vector<ExportCase> arithmetic_of_numbers() {
  OperatorTable with(floats());
  add_divisions(with);
  add_powers(with);
  with("maximum", [](T x) { return torch::maximum(x, other(x)); });
  with("minimum", [](T x) { return torch::minimum(x, other(x)); });
  with("max_other", [](T x) { return torch::max(x, other(x)); });
  with("min_other", [](T x) { return torch::min(x, other(x)); });
  with("clamp", [](T x) { return x.clamp(-1, 1); });
  with("clamp_by_tensors", [](T x) { return x.clamp(other(x) - 1, other(x) + 1); });
  with("clamp_min_only", [](T x) { return x.clamp(0); });
  with("clamp_min", [](T x) { return x.clamp_min(0); });
  with("clamp_min_tensor", [](T x) { return x.clamp_min(other(x)); });
  with("clamp_max", [](T x) { return x.clamp_max(0); });
  with("clamp_max_tensor", [](T x) { return x.clamp_max(other(x)); });
  with("div_part", [](T x) { return x / 0.7; });
  with("div_of_scalar", [](T x) { return 1 / x; });
  with("remainder_part", [](T x) { return x.remainder(-0.7); });
  with("pow_root", [](T x) { return x.abs().pow(-0.5); });
  return with.take();
}

std::vector<ExportCase> arithmetic_in_float64() {
  OperatorTable with(floats(), "_in_float64", torch::kDouble);
  add_divisions(with);
  add_powers(with);
  return with.take();
}

std::vector<ExportCase> arithmetic_of_integers() {
  OperatorTable with(integers(), "_of_integers");
  add_divisions(with);
  add_powers(with);
  with("maximum", [](T x) { return torch::maximum(x, other(x)); });
  with("clamp", [](T x) { return x.clamp(-1, 1); });
  with("add", [](T x) { return x + other(x); });
  with("add_scalar", [](T x) { return x + 1; });
  with("add_float", [](T x) { return x + 0.5; });
  with("sub_from_scalar", [](T x) { return torch::rsub(x, 1); });
  with("mul", [](T x) { return x * x; });
  with("remainder_of_16_bits", [](T x) { return x.to(torch::kShort).remainder(3); });
  with("add_8_bits", [](T x) { return x.to(torch::kChar) + 1; });
  with("add_unsigned", [](T x) { return x.abs().to(torch::kByte) + 1; });
  with("mul_32_bits", [](T x) { return x.to(torch::kInt) * 2; });
  return with.take();
}

std::vector<ExportCase> arithmetic_of_bools() {
  OperatorTable with(floats(), "_of_bools");
  with("add", [](T x) { return (x > 0) + (x < 1); });
  with("mul", [](T x) { return (x > 0) * (x < 1); });
  with("maximum", [](T x) { return torch::maximum(x > 0, x < -1); });
  with("rsub_float", [](T x) { return x - (x > 0).to(torch::kLong); });
  return with.take();
}

}  // namespace

std::vector<ExportCase> arithmetic_operators() {
  return joined({sums_and_products(), arithmetic_of_numbers(), arithmetic_in_float64(),
                 arithmetic_of_integers(), arithmetic_of_bools()});
}

}  // namespace attend
