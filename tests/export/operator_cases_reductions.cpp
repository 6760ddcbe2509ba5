#include "export/operator_case.h"

#include <torch/nn/functional.h>

#include <cmath>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using T = torch::Tensor;
using Dimensions = at::OptionalIntArrayRef;

void add_sums_and_means(OperatorTable& with) {
  with("sum", [](T x) { return x.sum(); });
  with("sum_over_length", [](T x) { return x.sum(1); });
  with("sum_over_two", [](T x) { return x.sum(at::IntArrayRef{0, 1}, /*keepdim=*/true); });
  with("mean", [](T x) { return x.mean(); });
  with("mean_over_length", [](T x) { return x.mean(1, /*keepdim=*/true); });
  with("prod", [](T x) { return x.prod(); });
  with("prod_over_length", [](T x) { return x.prod(1); });
  with("cumsum", [](T x) { return x.cumsum(1); });
  with("cumsum_over_batch", [](T x) { return x.cumsum(0); });
  with("logsumexp", [](T x) { return x.logsumexp(1); });
  with("logsumexp_large", [](T x) { return (x * 500).logsumexp(-1, /*keepdim=*/true); });
}

/// Variances and standard deviations with Bessel's correction (`unbiased`), with other corrections
/// and without correction.
std::vector<ExportCase> variances() {
  OperatorTable with(floats());
  with("var", [](T x) { return torch::cat({x, x + 1}, 1).var(/*unbiased=*/true); });
  with("var_biased", [](T x) { return x.var(/*unbiased=*/false); });
  with("var_over_width", [](T x) { return x.var(Dimensions({-1}), /*unbiased=*/true); });
  with("var_corrected", [](T x) { return x.var(Dimensions({1, 2}), at::Scalar(0.5), true); });
  with("std", [](T x) { return x.std(/*unbiased=*/true); });
  with("std_over_width", [](T x) { return x.std(Dimensions({-1}), /*unbiased=*/true, true); });
  with("std_corrected", [](T x) { return x.std(Dimensions({-1}), at::Scalar(2)); });
  with("var_mean", [](T x) { return torch::var_mean(x, /*unbiased=*/true); });
  with("var_mean_over_length",
       [](T x) { return torch::var_mean(x, Dimensions({1}), false, true); });
  with("var_mean_corrected",
       [](T x) { return torch::var_mean(x, Dimensions({-1}), at::Scalar(1)); });
  with("std_mean", [](T x) { return torch::std_mean(x, /*unbiased=*/false); });
  with("std_mean_over_length", [](T x) { return torch::std_mean(x, Dimensions({1}), false); });
  with("std_mean_corrected",
       [](T x) { return torch::std_mean(x, Dimensions({-1}), at::Scalar(1), true); });
  return with.take();
}

std::vector<ExportCase> norms() {
  OperatorTable with(floats());
  with("norm", [](T x) { return x.norm(); });
  with("norm_1", [](T x) { return x.norm(1, {-1}); });
  with("norm_3", [](T x) { return x.norm(3, {1}, /*keepdim=*/true); });
  with("norm_as_float64", [](T x) { return torch::norm(x, 2, torch::kDouble); });
  with("norm_over_length_as_float64",
       [](T x) { return torch::norm(x, 2, {1}, /*keepdim=*/false, torch::kDouble); });
  with("vector_norm", [](T x) { return torch::linalg_vector_norm(x, 2, Dimensions({-1}), true); });
  with("vector_norm_0",
       [](T x) { return torch::linalg_vector_norm(x.relu(), 0, Dimensions({-1})); });
  with("vector_norm_inf",
       [](T x) { return torch::linalg_vector_norm(x, INFINITY, Dimensions({1})); });
  with("vector_norm_negative_inf",
       [](T x) { return torch::linalg_vector_norm(x, -INFINITY, Dimensions({1})); });
  with("normalize", [](T x) { return F::normalize(x, F::NormalizeFuncOptions().dim(-1)); });
  with("cosine_similarity", [](T x) {
    return F::cosine_similarity(x, x.flip({-1}), F::CosineSimilarityFuncOptions().dim(-1));
  });
  return with.take();
}

std::vector<ExportCase> extremes() {
  OperatorTable with(floats());
  with("max", [](T x) { return x.max(); });
  with("min", [](T x) { return x.min(); });
  with("amax", [](T x) { return x.amax(1); });
  with("amin", [](T x) { return x.amin({0, 1}, /*keepdim=*/true); });
  with("amax_all", [](T x) { return x.amax(); });
  with("any", [](T x) { return (x > 1).any(); });
  with("any_over_length", [](T x) { return (x > 1).any(1); });
  with("any_over_two", [](T x) { return (x > 1).any(Dimensions({0, 1})); });
  with("all", [](T x) { return (x > -1).all(); });
  with("all_over_length", [](T x) { return (x > -1).all(1, /*keepdim=*/true); });
  with("all_over_two", [](T x) { return (x > -1).all(Dimensions({0, 1})); });
  with("any_float", [](T x) { return (x * (x > 1)).any(-1); });
  with("count_nonzero", [](T x) { return (x > 0).count_nonzero(); });
  with("count_nonzero_over_length",
       [](T x) { return (x > 0).count_nonzero(std::optional<int64_t>(1)); });
  with("count_nonzero_over_two", [](T x) {
    return (x > 0).count_nonzero(torch::IntArrayRef({0, 1}));
  });
  return with.take();
}

void add_scans(OperatorTable& with) {
  with("cumprod", [](T x) { return x.cumprod(1); });
  with("cumprod_over_width", [](T x) { return x.cumprod(-1); });
  with("cumprod_over_batch", [](T x) { return x.cumprod(0); });
  with("cummax", [](T x) { return x.cummax(1); });
  with("cummax_over_width", [](T x) { return x.cummax(-1); });
  with("cummin", [](T x) { return x.cummin(1); });
  with("median", [](T x) { return x.median(); });
  with("median_over_length", [](T x) { return x.median(1); });
  with("median_over_width", [](T x) { return x.median(-1, /*keepdim=*/true); });
  with("nanmedian", [](T x) { return x.nanmedian(); });
  with("nanmedian_over_length", [](T x) { return x.nanmedian(1, /*keepdim=*/true); });
}

std::vector<ExportCase> scans() {
  OperatorTable with(floats());
  add_scans(with);
  with("cumprod_as_float64", [](T x) { return x.cumprod(1, torch::kDouble); });
  with("cumprod_of_scalar", [](T x) { return x.sum().cumprod(0); });
  with("cummax_of_scalar", [](T x) { return x.mean().cummax(0); });
  with("median_of_scalar", [](T x) { return x.mean().median(0); });
  with("cumprod_empty", [](T x) { return x.narrow(-1, 0, 0).cumprod(-1); });
  with("cummax_of_slice", [](T x) { return x.slice(1, 6).cummax(1); });  // may be empty
  OperatorTable in_float64(floats(), "_in_float64", torch::kDouble);
  add_scans(in_float64);
  OperatorTable of_integers(integers(), "_of_integers");
  of_integers("cumprod", [](T x) { return (x.sign() * 2 + 1).cumprod(-1); });
  of_integers("cumprod_of_bools", [](T x) { return (x > -5).cumprod(-1); });
  of_integers("cummax", [](T x) { return x.cummax(-1); });
  of_integers("cummin_of_16_bits", [](T x) { return x.to(torch::kShort).cummin(0); });
  of_integers("median", [](T x) { return x.median(); });
  of_integers("median_over_batch", [](T x) { return std::get<0>(x.median(0)); });
  OperatorTable in_float16(floats(), "_in_float16", torch::kHalf);
  in_float16("cumprod", [](T x) { return x.cumprod(-1); });
  // The products exceed the range of float16 before they become smaller.
  in_float16("cumprod_of_large", [](T x) {
    const auto factors = torch::tensor({200.0, 400.0, 4.0, 0.01, 0.01, 1.0}).to(torch::kHalf);
    return (x.sign() * factors).cumprod(-1);
  });
  in_float16("cummax", [](T x) { return x.cummax(1); });
  return joined({with.take(), in_float64.take(), of_integers.take(), in_float16.take()});
}

std::vector<ExportCase> reductions_of_numbers() {
  OperatorTable with(floats());
  add_sums_and_means(with);
  with("max_last_dim", [](T x) { return x.max(-1); });
  with("min_last_dim", [](T x) { return x.min(-1, /*keepdim=*/true); });
  with("argmax", [](T x) { return x.argmax(); });
  with("argmax_over_width", [](T x) { return x.argmax(-1); });
  with("argmin_over_width", [](T x) { return x.argmin(-1, /*keepdim=*/true); });
  with("sum_as_float64", [](T x) { return x.sum(-1, false, torch::kDouble); });
  with("mean_as_float64", [](T x) { return x.mean(1, false, torch::kDouble); });
  with("sum_of_bools", [](T x) { return (x > 0).sum(-1); });
  with("cumsum_of_bools", [](T x) { return (x > 0).cumsum(-1); });
  with("sum_empty", [](T x) { return x.narrow(-1, 0, 0).sum(-1); });
  with("mean_empty", [](T x) { return x.narrow(-1, 0, 0).mean(-1); });
  with("mean_of_slice", [](T x) { return x.slice(1, 6).mean(1); });  // NaN if the length is <= 6
  with("any_empty", [](T x) { return (x.narrow(-1, 0, 0) > 0).any(-1); });
  return with.take();
}

std::vector<ExportCase> reductions_in_float64() {
  OperatorTable with(floats(), "_in_float64", torch::kDouble);
  add_sums_and_means(with);
  return with.take();
}

std::vector<ExportCase> reductions_of_integers() {
  OperatorTable with(integers(), "_of_integers");
  with("max", [](T x) { return x.max(); });
  with("amin", [](T x) { return x.amin(1); });
  with("any", [](T x) { return x.any(-1); });
  with("all", [](T x) { return x.all(); });
  with("sum", [](T x) { return x.sum(); });
  with("sum_of_32_bits", [](T x) { return x.to(torch::kInt).sum(-1); });
  with("sum_as_float", [](T x) { return x.sum(-1, false, torch::kFloat); });
  with("mean_as_float", [](T x) { return x.mean(-1, false, torch::kFloat); });
  with("prod", [](T x) { return x.sign().prod(-1); });
  with("cumsum", [](T x) { return x.cumsum(-1); });
  with("argmax", [](T x) { return (x * 32 + torch::ones_like(x).cumsum(-1)).argmax(-1); });
  return with.take();
}

}  // namespace

std::vector<ExportCase> reduction_operators() {
  return joined({norms(), variances(), extremes(), reductions_of_numbers(), reductions_in_float64(),
                 reductions_of_integers(), scans()});
}

}  // namespace attend
