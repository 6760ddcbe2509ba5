#include "export/operator_case.h"

#include <torch/nn/functional.h>

#include <cmath>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using T = torch::Tensor;
using Dimensions = at::OptionalIntArrayRef;

/// x: (B, T, 6) with NaN, infinities, signed zeros, tiny values, large values and values such as
/// -2.5, which are halfway between two integers.
CaseInput special_values() {
  return {"x", {kBatch, kLength, 6}, [](const std::vector<int64_t>& sizes) {
            const auto values = torch::tensor({NAN, INFINITY, -INFINITY, 0.0F, -0.0F, 1.0F, -1.0F,
                                               0.5F, -2.5F, 3.0F, 1e-9F, -1e-9F, 1e9F, -10.0F});
            return values
                .index_select(0, torch::randint(values.numel(), {c10::multiply_integers(sizes)}))
                .view(sizes);
          }};
}

/// Returns the values of `x` in another order.
T other(const T& x) {
  return x.flip({0, 1, 2});
}

std::vector<ExportCase> functions_of_special_values() {
  OperatorTable with(special_values(), "_of_special_values");
  with("exp", [](T x) { return x.exp(); });
  with("exp2", [](T x) { return x.exp2(); });
  with("log", [](T x) { return x.log(); });
  with("xlogy", [](T x) {
    return Tensors{torch::xlogy(x, other(x)), torch::xlogy(x, x), torch::xlogy(0, x)};
  });
  with("log1p", [](T x) { return x.log1p(); });
  with("expm1", [](T x) { return x.expm1(); });
  with("sqrt", [](T x) { return x.sqrt(); });
  with("rsqrt", [](T x) { return x.rsqrt(); });
  with("reciprocal", [](T x) { return x.reciprocal(); });
  with("abs", [](T x) { return x.abs(); });
  with("sign", [](T x) { return x.sign(); });
  with("floor", [](T x) { return x.floor().reciprocal(); });
  with("ceil", [](T x) { return x.ceil().reciprocal(); });
  with("round", [](T x) { return x.round().reciprocal(); });
  with("trunc", [](T x) { return x.trunc().reciprocal(); });
  with("frac", [](T x) { return x.frac(); });
  with("sigmoid", [](T x) { return x.sigmoid(); });
  with("tanh", [](T x) { return x.tanh(); });
  with("erf", [](T x) { return x.erf(); });
  with("atan", [](T x) { return x.atan(); });
  with("logit", [](T x) { return x.logit(); });
  with("logit_with_eps", [](T x) { return x.logit(0.2); });
  with("relu", [](T x) { return x.relu(); });
  with("relu6", [](T x) { return F::relu6(x); });
  with("silu", [](T x) { return F::silu(x); });
  with("softplus", [](T x) { return F::softplus(x); });
  with("log_sigmoid", [](T x) { return F::logsigmoid(x); });
  with("mish", [](T x) { return F::mish(x); });
  with("leaky_relu", [](T x) { return torch::leaky_relu(x, 0.2); });
  with("elu", [](T x) { return torch::elu(x, 0.7, 1.5, 2.0); });
  with("celu", [](T x) { return torch::celu(x, 0.7); });
  with("selu", [](T x) { return torch::selu(x); });
  with("hardsigmoid", [](T x) { return torch::hardsigmoid(x); });
  with("hardswish", [](T x) { return torch::hardswish(x); });
  with("hardtanh", [](T x) { return torch::hardtanh(x, -0.5, 0.8); });
  with("threshold", [](T x) { return torch::threshold(x, 0.1, 20); });
  with("prelu", [](T x) { return torch::prelu(x, torch::full({1}, 0.3)); });
  // x is clamped, since glu applies sigmoid, which is inaccurate in onnxruntime for values below
  // -1.
  with("glu", [](T x) { return torch::glu(x.clamp_min(-1)); });
  with("softsign", [](T x) { return F::softsign(x); });
  with("hardshrink", [](T x) { return torch::hardshrink(x, 0.7); });
  with("softshrink", [](T x) { return torch::softshrink(x, 0.7); });
  with("softmax", [](T x) { return x.softmax(-1); });
  with("log_softmax", [](T x) { return x.log_softmax(-1); });
  return with.take();
}

std::vector<ExportCase> arithmetic_of_special_values() {
  OperatorTable with(special_values(), "_of_special_values");
  with("atan2", [](T x) { return torch::atan2(x, other(x)); });
  with("cummax", [](T x) { return x.cummax(1); });
  with("cummin", [](T x) { return x.cummin(-1); });
  with("median", [](T x) { return std::get<0>(x.median(1)); });
  with("nanmedian", [](T x) { return std::get<0>(x.nanmedian(1)); });
  with("div", [](T x) { return x / other(x); });
  with("div_floor", [](T x) { return torch::div(x, other(x), "floor").reciprocal(); });
  with("div_floor_scalar", [](T x) { return torch::div(x, -0.1, "floor"); });
  with("div_floor_zero", [](T x) { return torch::div(x, 0, "floor"); });
  with("div_trunc", [](T x) { return torch::div(x, other(x), "trunc"); });
  with("floor_divide", [](T x) { return torch::floor_divide(x, other(x)); });
  with("remainder", [](T x) { return x.remainder(other(x)); });
  with("remainder_of_tiny", [](T x) { return (x * 1e-25).remainder(other(x) * 1e-25) * 1e25; });
  with("fmod", [](T x) { return x.fmod(other(x)); });
  with("maximum", [](T x) { return torch::maximum(x, other(x)); });
  with("minimum", [](T x) { return torch::minimum(x, other(x)); });
  with("clamp", [](T x) { return x.clamp(-1, 1); });
  with("clamp_by_tensors", [](T x) { return x.clamp(-other(x).abs(), other(x).abs()); });
  with("clamp_min", [](T x) { return x.clamp_min(0.5); });
  with("clamp_max", [](T x) { return x.clamp_max(0.5); });
  with("pow_2", [](T x) { return x.pow(2); });
  with("pow_root", [](T x) { return Tensors{x.pow(0.5), x.pow(-0.5), x.pow(-2), x.pow(3)}; });
  with("pow_tensor", [](T x) { return x.pow(other(x)); });
  with("logaddexp", [](T x) { return torch::logaddexp(x, other(x)); });
  with("logaddexp_of_equal", [](T x) { return torch::logaddexp(x, x); });
  with("logaddexp2", [](T x) { return torch::logaddexp2(x, other(x)); });
  with("logaddexp2_of_equal", [](T x) { return torch::logaddexp2(x, x); });
  with("lerp", [](T x) { return torch::lerp(x, other(x), 0.3); });
  with("lerp_large_weight", [](T x) { return torch::lerp(x, other(x), 0.7); });
  with("lerp_by_tensor", [](T x) { return torch::lerp(x, other(x), x.roll(1, -1)); });
  return with.take();
}

std::vector<ExportCase> comparisons_of_special_values() {
  OperatorTable with(special_values(), "_of_special_values");
  with("eq", [](T x) { return x == other(x); });
  with("ne", [](T x) { return x != other(x); });
  with("lt", [](T x) { return x < other(x); });
  with("le", [](T x) { return x <= other(x); });
  with("gt", [](T x) { return x > other(x); });
  with("ge", [](T x) { return x >= other(x); });
  with("logical_not", [](T x) { return x.logical_not(); });
  with("isnan", [](T x) { return x.isnan(); });
  with("isinf", [](T x) { return x.isinf(); });
  with("isfinite", [](T x) { return x.isfinite(); });
  with("nan_to_num", [](T x) { return x.nan_to_num(0.5, 2.0, 3.0); });
  with("where", [](T x) { return torch::where(x > 0, x, other(x)); });
  with("bucketize", [](T x) { return torch::bucketize(x, torch::tensor({-1.0, 0.0, 2.0})); });
  with("bucketize_from_right", [](T x) {
    return torch::bucketize(x, torch::tensor({-1.0, 0.0, 2.0}), /*out_int32=*/false, true);
  });
  return with.take();
}

std::vector<ExportCase> reductions_of_special_values() {
  OperatorTable with(special_values(), "_of_special_values");
  with("sum", [](T x) { return x.sum(-1); });
  with("mean", [](T x) { return x.mean(-1); });
  with("prod", [](T x) { return x.prod(-1); });
  with("cumsum", [](T x) { return x.cumsum(-1); });
  with("logsumexp", [](T x) { return x.logsumexp(-1); });
  with("logsumexp_of_one", [](T x) { return x.unsqueeze(-1).logsumexp(-1); });
  with("max", [](T x) { return x.max(); });
  with("min", [](T x) { return x.min(); });
  with("amax", [](T x) { return x.amax(1); });
  with("amin", [](T x) { return x.amin({0, 2}, /*keepdim=*/true); });
  with("max_last_dim", [](T x) { return x.max(-1); });
  with("min_over_length", [](T x) { return x.min(1, /*keepdim=*/true); });
  with("argmax", [](T x) { return x.argmax(); });
  with("argmax_over_width", [](T x) { return x.argmax(-1); });
  with("argmin_over_width", [](T x) { return x.argmin(-1, /*keepdim=*/true); });
  with("any", [](T x) { return x.any(-1); });
  with("all", [](T x) { return x.all(-1); });
  with("count_nonzero", [](T x) { return x.count_nonzero(); });
  with("norm", [](T x) { return x.norm(2, {-1}); });
  with("vector_norm_inf",
       [](T x) { return torch::linalg_vector_norm(x, INFINITY, Dimensions({1})); });
  with("vector_norm_negative_inf",
       [](T x) { return torch::linalg_vector_norm(x, -INFINITY, Dimensions({1})); });
  with("var", [](T x) { return x.var(Dimensions({-1}), /*unbiased=*/true); });
  with("adaptive_max_pool1d", [](T x) { return std::get<0>(torch::adaptive_max_pool1d(x, 4)); });
  return with.take();
}

/// Functions that must be accurate: functions with small arguments or results, floor divisions and
/// logarithms.
std::vector<ExportCase> exact_functions() {
  OperatorTable with(fractions(), "_of_small");
  with("log1p", [](T x) { return (x * 1e-6).log1p() * 1e6; });
  with("log1p_negative", [](T x) { return (x * -1e-9).log1p() * 1e9; });
  with("expm1", [](T x) { return (x * 1e-6).expm1() * 1e6; });
  with("expm1_negative", [](T x) { return (x * -1e-9).expm1() * 1e9; });
  with("softplus", [](T x) { return F::softplus(-x - 16) * 1e7; });
  with("log_sigmoid", [](T x) { return F::logsigmoid(x + 16) * 1e7; });
  with("logaddexp", [](T x) { return torch::logaddexp(x * 0, -x - 16) * 1e7; });
  // 1.0 // 0.1 is 9 in floating point.
  with("div_floor", [](T x) { return torch::div((x * 10).ceil(), 0.1, "floor"); });
  with("div_floor_tensor", [](T x) {
    const auto step = (x * 10).ceil() / 10;
    return torch::floor_divide(step * 7, step);
  });
  with("log2_of_powers", [](T x) { return (x * 60 - 30).round().exp2().log2().floor(); });
  with("log2_in_float64", [](T x) { return x.to(torch::kDouble).log2(); });
  with("log10_of_powers", [](T x) {
    return torch::pow(10, (x * 20).round().to(torch::kDouble)).to(torch::kFloat).log10().floor();
  });
  return with.take();
}

/// x: (B, T), random integers between -2^62 and 2^62. float64 cannot represent most of them
/// exactly.
CaseInput large_integers() {
  return {"x", {kBatch, kLength}, [](const std::vector<int64_t>& sizes) {
            constexpr auto max = int64_t{1} << 62;
            return torch::randint(-max, max, sizes, torch::kLong);
          }};
}

std::vector<ExportCase> arithmetic_of_large() {
  OperatorTable with(large_integers(), "_of_large");
  with("div_floor", [](T x) { return torch::div(x, 7, "floor"); });
  with("div_floor_negative", [](T x) { return torch::div(x, -3, "floor"); });
  with("div_trunc", [](T x) { return torch::div(x, -3, "trunc"); });
  with("floor_divide", [](T x) { return torch::floor_divide(x, x.flip({-1}).sign() * 5); });
  with("remainder", [](T x) { return x.remainder(7); });
  with("remainder_negative", [](T x) { return x.remainder(-7); });
  with("fmod", [](T x) { return x.fmod(7); });
  with("fmod_negative", [](T x) { return x.fmod(-1000003); });
  with("pow_3", [](T x) { return torch::div(x, int64_t{1} << 42, "trunc").pow(3); });
  with("max", [](T x) { return torch::maximum(x, x + 1); });
  with("sum", [](T x) { return torch::div(x, 1'000'000, "trunc").sum(); });
  return with.take();
}

}  // namespace

std::vector<ExportCase> special_value_operators() {
  return joined({functions_of_special_values(), arithmetic_of_special_values(),
                 comparisons_of_special_values(), reductions_of_special_values(), exact_functions(),
                 arithmetic_of_large()});
}

}  // namespace attend
