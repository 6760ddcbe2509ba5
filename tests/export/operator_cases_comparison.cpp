#include "export/operator_case.h"

#include <torch/types.h>

#include <cmath>

namespace attend {
namespace {

using T = torch::Tensor;

std::vector<ExportCase> comparisons_of_numbers() {
  OperatorTable with(floats());
  with("eq", [](T x) { return x == x.relu(); });
  with("eq_scalar", [](T x) { return x.relu() == 0; });
  with("ne", [](T x) { return x != x.relu(); });
  with("ne_scalar", [](T x) { return x.relu() != 0; });
  with("lt", [](T x) { return x < x.relu(); });
  with("lt_scalar", [](T x) { return x < 0; });
  with("le", [](T x) { return x <= x.relu(); });
  with("le_scalar", [](T x) { return x <= 0.5; });
  with("gt", [](T x) { return x > -x; });
  with("gt_scalar", [](T x) { return x > 0.5; });
  with("ge", [](T x) { return x >= x.relu(); });
  with("ge_scalar", [](T x) { return x >= 0; });
  with("logical_not", [](T x) { return x.relu().logical_not(); });
  with("logical_and", [](T x) { return x.relu().logical_and(x < 1); });
  with("logical_or", [](T x) { return x.relu().logical_or(x < -1); });
  with("logical_xor", [](T x) { return x.relu().logical_xor(x < 1); });
  with("where", [](T x) { return torch::where(x > 0, x, x * 2); });
  with("where_scalar_other", [](T x) { return torch::where(x > 0, x, 0.5); });
  with("where_scalar_self", [](T x) { return torch::where(x > 0, 2, x); });
  with("where_scalars", [](T x) { return torch::where(x > 0, 2.0, 0.5) + x; });
  with("masked_fill", [](T x) { return x.masked_fill(x > 0, 7); });
  with("masked_fill_tensor",
       [](T x) { return x.masked_fill(x > 0, torch::tensor(7).to(x.scalar_type())); });
  with("masked_fill_bool", [](T x) { return (x > 0).masked_fill(x > 1, false); });
  with("where_bool", [](T x) { return torch::where(x > 0, true, x > -1); });
  with("eq_bool", [](T x) { return (x > 0) == false; });
  with("add_bool", [](T x) { return (x > 0) + true; });
  with("isnan", [](T x) { return x.isnan(); });
  with("isinf", [](T x) { return x.isinf(); });
  with("isfinite", [](T x) { return x.isfinite(); });
  with("nan_to_num", [](T x) { return x.nan_to_num(); });
  with("masked_fill_infinity",
       [](T x) { return x.masked_fill(x > x.amin(-1, true), -INFINITY).softmax(-1); });
  with("isnan_with_nan", [](T x) { return (x.relu() / x.relu()).isnan(); });
  with("isinf_with_inf", [](T x) { return (x / x.relu()).isinf(); });
  with("isfinite_with_inf", [](T x) { return (x / x.relu()).isfinite(); });
  with("nan_to_num_zero", [](T x) { return (x.relu() / x.relu()).nan_to_num(); });
  with("nan_to_num_values", [](T x) {
    return torch::cat({x / x.relu(), -x / x.relu()}, -1).nan_to_num(1.0, 5.0, -5.0);
  });
  with("nan_to_num_defaults", [](T x) { return (x / x.relu()).nan_to_num() / 2; });
  return with.take();
}

std::vector<ExportCase> comparisons_of_integers() {
  OperatorTable with(integers(), "_of_integers");
  with("eq", [](T x) { return x == x.relu(); });
  with("ne_scalar", [](T x) { return x != 3; });
  with("lt", [](T x) { return x < x.relu(); });
  with("le_part", [](T x) { return x <= 0.5; });
  with("logical_and", [](T x) { return x.logical_and(x < 1); });
  with("where", [](T x) { return torch::where(x > 0, x, x * 2); });
  with("where_float", [](T x) { return torch::where(x > 0, x, 0.5); });
  with("masked_fill", [](T x) { return x.masked_fill(x > 0, 7); });
  with("isnan", [](T x) { return x.isnan(); });
  with("isfinite", [](T x) { return x.isfinite(); });
  with("nan_to_num", [](T x) { return x.nan_to_num(); });
  with("bitwise_and", [](T x) { return x.bitwise_and(x + 3); });
  with("bitwise_and_scalar", [](T x) { return x.bitwise_and(3); });
  with("bitwise_or", [](T x) { return x.bitwise_or(x + 3); });
  with("bitwise_or_scalar", [](T x) { return x.bitwise_or(3); });
  with("bitwise_xor", [](T x) { return x.bitwise_xor(x + 3); });
  with("bitwise_xor_scalar", [](T x) { return x.bitwise_xor(3); });
  with("bitwise_not", [](T x) { return x.bitwise_not(); });
  // Shifts by negative numbers, and by the number of bits or more, are defined in LibTorch.
  static constexpr auto shifts = [](const T& x) { return torch::cat({x, x * 8, x + 64}, 0); };
  static constexpr auto numbers = [](const T& x) { return torch::cat({x, x * 12345, x}, 0); };
  with("left_shift", [](T x) { return torch::bitwise_left_shift(numbers(x), shifts(x)); });
  with("right_shift", [](T x) { return torch::bitwise_right_shift(numbers(x), shifts(x)); });
  with("shift_by_scalar", [](T x) {
    return Tensors{torch::bitwise_left_shift(x, 3), torch::bitwise_right_shift(x, 1)};
  });
  with("shift_of_scalar", [](T x) {
    return Tensors{torch::bitwise_left_shift(at::Scalar(5), x.abs()),
                   torch::bitwise_right_shift(at::Scalar(5000), x.abs())};
  });
  with("shift_operators", [](T x) {
    return Tensors{x.__lshift__(2), x.__rshift__(2), x.__lshift__(x.abs()), x.__rshift__(x.abs())};
  });
  with("shift_of_32_bits", [](T x) {
    const auto y = x.to(torch::kInt);
    return Tensors{torch::bitwise_left_shift(numbers(y), shifts(y)),
                   torch::bitwise_right_shift(numbers(y), shifts(y))};
  });
  with("shift_of_8_bits", [](T x) {
    const auto y = x.to(torch::kChar);
    return Tensors{torch::bitwise_left_shift(y, y), torch::bitwise_right_shift(y, y)};
  });
  with("shift_of_bytes", [](T x) {
    const auto y = x.to(torch::kByte);
    return Tensors{torch::bitwise_left_shift(y, y % 10), torch::bitwise_right_shift(y, y % 10)};
  });
  with("and_operator", [](T x) { return x.__and__(x + 3); });
  with("and_operator_scalar", [](T x) { return x.__and__(3); });
  with("or_operator", [](T x) { return x.__or__(x + 3); });
  with("or_operator_scalar", [](T x) { return x.__or__(3); });
  with("xor_operator", [](T x) { return x.__xor__(x + 3); });
  with("xor_operator_scalar", [](T x) { return x.__xor__(3); });
  with("pairwise_eq", [](T x) { return x.unsqueeze(-1) == x.unsqueeze(-2); });
  return with.take();
}

std::vector<ExportCase> comparisons_of_bools() {
  OperatorTable with(floats(), "_of_bools");
  with("bitwise_and", [](T x) { return (x > 0) & (x < 1); });
  with("bitwise_or", [](T x) { return (x > 0) | (x < -1); });
  with("bitwise_xor", [](T x) { return (x > 0) ^ (x < 1); });
  with("bitwise_not", [](T x) { return ~(x > 0); });
  with("eq", [](T x) { return (x > 0) == (x < 1); });
  with("where", [](T x) { return torch::where(x > 0, x < 1, x < -1); });
  return with.take();
}

}  // namespace

std::vector<ExportCase> comparison_operators() {
  return joined({comparisons_of_numbers(), comparisons_of_integers(), comparisons_of_bools()});
}

}  // namespace attend
