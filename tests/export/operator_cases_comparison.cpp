#include "export/operator_case.h"

#include <torch/types.h>

#include <cmath>

namespace attend {
namespace {

using T = torch::Tensor;

std::vector<ExportCase> comparisons_of_numbers() {
  OperatorTable with(numbers());
  with("eq", [](T x) { return x == x.relu(); });
  with("eq_number", [](T x) { return x.relu() == 0; });
  with("ne", [](T x) { return x != x.relu(); });
  with("ne_number", [](T x) { return x.relu() != 0; });
  with("lt", [](T x) { return x < x.relu(); });
  with("lt_number", [](T x) { return x < 0; });
  with("le", [](T x) { return x <= x.relu(); });
  with("le_number", [](T x) { return x <= 0.5; });
  with("gt", [](T x) { return x > -x; });
  with("gt_number", [](T x) { return x > 0.5; });
  with("ge", [](T x) { return x >= x.relu(); });
  with("ge_number", [](T x) { return x >= 0; });
  with("logical_not", [](T x) { return x.relu().logical_not(); });
  with("logical_and", [](T x) { return x.relu().logical_and(x < 1); });
  with("logical_or", [](T x) { return x.relu().logical_or(x < -1); });
  with("logical_xor", [](T x) { return x.relu().logical_xor(x < 1); });
  with("where", [](T x) { return torch::where(x > 0, x, x * 2); });
  with("where_else_number", [](T x) { return torch::where(x > 0, x, 0.5); });
  with("where_number", [](T x) { return torch::where(x > 0, 2, x); });
  with("where_numbers", [](T x) { return torch::where(x > 0, 2.0, 0.5) + x; });
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
  with("isnan_where_some_are", [](T x) { return (x.relu() / x.relu()).isnan(); });
  with("isinf_where_some_are", [](T x) { return (x / x.relu()).isinf(); });
  with("isfinite_where_some_are", [](T x) { return (x / x.relu()).isfinite(); });
  with("nan_to_num_zero", [](T x) { return (x.relu() / x.relu()).nan_to_num(); });
  with("nan_to_num_given", [](T x) {
    return torch::cat({x / x.relu(), -x / x.relu()}, -1).nan_to_num(1.0, 5.0, -5.0);
  });
  with("nan_to_num_greatest", [](T x) { return (x / x.relu()).nan_to_num() / 2; });
  return with.take();
}

std::vector<ExportCase> comparisons_of_whole_numbers() {
  OperatorTable with(whole_numbers(), "_of_whole_numbers");
  with("eq", [](T x) { return x == x.relu(); });
  with("ne_number", [](T x) { return x != 3; });
  with("lt", [](T x) { return x < x.relu(); });
  with("le_part", [](T x) { return x <= 0.5; });
  with("logical_and", [](T x) { return x.logical_and(x < 1); });
  with("where", [](T x) { return torch::where(x > 0, x, x * 2); });
  with("where_else_part", [](T x) { return torch::where(x > 0, x, 0.5); });
  with("masked_fill", [](T x) { return x.masked_fill(x > 0, 7); });
  with("isnan", [](T x) { return x.isnan(); });
  with("isfinite", [](T x) { return x.isfinite(); });
  with("nan_to_num", [](T x) { return x.nan_to_num(); });
  with("bitwise_and", [](T x) { return x.bitwise_and(x + 3); });
  with("bitwise_and_number", [](T x) { return x.bitwise_and(3); });
  with("bitwise_or", [](T x) { return x.bitwise_or(x + 3); });
  with("bitwise_or_number", [](T x) { return x.bitwise_or(3); });
  with("bitwise_xor", [](T x) { return x.bitwise_xor(x + 3); });
  with("bitwise_xor_number", [](T x) { return x.bitwise_xor(3); });
  with("bitwise_not", [](T x) { return x.bitwise_not(); });
  with("and_operator", [](T x) { return x.__and__(x + 3); });
  with("and_operator_number", [](T x) { return x.__and__(3); });
  with("or_operator", [](T x) { return x.__or__(x + 3); });
  with("or_operator_number", [](T x) { return x.__or__(3); });
  with("xor_operator", [](T x) { return x.__xor__(x + 3); });
  with("xor_operator_number", [](T x) { return x.__xor__(3); });
  with("same_document", [](T x) { return x.unsqueeze(-1) == x.unsqueeze(-2); });
  return with.take();
}

std::vector<ExportCase> comparisons_of_bools() {
  OperatorTable with(numbers(), "_of_bools");
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
  return joined({comparisons_of_numbers(), comparisons_of_whole_numbers(), comparisons_of_bools()});
}

}  // namespace attend
