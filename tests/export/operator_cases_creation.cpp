#include "export/operator_case.h"

#include <torch/types.h>

namespace attend {
namespace {

using T = torch::Tensor;

/// Operators that create tensors, and functions such as `fill_` that set all elements.
std::vector<ExportCase> filled() {
  OperatorTable with(floats());
  with("ones_like", [](T x) { return torch::ones_like(x); });
  with("zeros_like", [](T x) { return torch::zeros_like(x, torch::kLong); });
  with("full_like", [](T x) { return torch::full_like(x, 2.5); });
  with("zeros", [](T x) { return torch::cat({x, torch::zeros({1, 1, 6}).expand_as(x)}, 1); });
  with("ones", [](T x) { return x + torch::ones({6}); });
  with("ones_only", [](T) { return torch::ones({3}); });
  with("full", [](T x) { return x + torch::full({6}, 2.5); });
  with("new_zeros", [](T x) { return torch::cat({x, x.new_zeros({1}).expand_as(x)}, 1); });
  with("new_ones", [](T x) { return x + x.new_ones({6}); });
  with("new_full", [](T x) { return x + x.new_full({6}, 3); });
  with("scalar_tensor", [](T x) { return x + torch::scalar_tensor(3); });
  with("tensor", [](T x) { return x * torch::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}); });
  with("empty_filled", [](T x) { return x + torch::empty({6}).fill_(2); });
  with("new_empty_filled", [](T x) { return x + x.new_empty({6}).fill_(torch::tensor(2.0)); });
  with("empty_like_zeroed", [](T x) { return torch::empty_like(x).zero_(); });
  with("empty_like_copied", [](T x) { return torch::empty_like(x).copy_(x.select(0, 0)); });
  return with.take();
}

std::vector<ExportCase> ranges() {
  OperatorTable with(floats());
  with("arange", [](T x) { return x + torch::arange(6); });
  with("arange_start", [](T x) { return x + torch::arange(2, 8); });
  with("arange_step", [](T x) { return x + torch::arange(0, 3, 0.5); });
  with("linspace", [](T x) { return x * torch::linspace(0, 1, 6); });
  with("eye", [](T x) { return x.matmul(torch::eye(6)); });
  with("eye_columns", [](T x) { return x.matmul(torch::eye(6, 4)); });
  return with.take();
}

}  // namespace

std::vector<ExportCase> creation_operators() {
  return joined({filled(), ranges()});
}

}  // namespace attend
