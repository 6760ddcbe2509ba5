#include "export/operator_case.h"

#include <torch/nn/functional.h>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using T = torch::Tensor;

/// Functions that are defined for all floats.
std::vector<ExportCase> functions() {
  OperatorTable with(floats());
  with("exp", [](T x) { return x.exp(); });
  with("exp2", [](T x) { return x.exp2(); });
  with("expm1", [](T x) { return x.expm1(); });
  with("sin", [](T x) { return x.sin(); });
  with("cos", [](T x) { return x.cos(); });
  with("tan", [](T x) { return (x * 0.3).tan(); });
  with("sinh", [](T x) { return x.sinh(); });
  with("cosh", [](T x) { return x.cosh(); });
  with("tanh", [](T x) { return x.tanh(); });
  with("atan", [](T x) { return x.atan(); });
  with("asinh", [](T x) { return x.asinh(); });
  with("erf", [](T x) { return x.erf(); });
  with("erfc", [](T x) { return x.erfc(); });
  with("sigmoid", [](T x) { return x.sigmoid(); });
  with("abs", [](T x) { return x.abs(); });
  with("neg", [](T x) { return -x; });
  with("positive", [](T x) { return x.positive(); });
  with("sign", [](T x) { return x.sign(); });
  with("reciprocal", [](T x) { return x.reciprocal(); });
  with("square", [](T x) { return x.square(); });
  with("atan2", [](T x) { return torch::atan2(x, x.flip({-1})); });
  with("atan2_broadcast", [](T x) { return torch::atan2(x, x.select(1, 0).unsqueeze(1)); });
  with("hardshrink", [](T x) { return torch::hardshrink(x); });
  with("softshrink", [](T x) { return torch::softshrink(x, 0.3); });
  return with.take();
}

/// Functions of floats in (0, 1).
std::vector<ExportCase> functions_of_fractions() {
  OperatorTable with(fractions());
  with("log", [](T x) { return x.log(); });
  with("log2", [](T x) { return x.log2(); });
  with("log10", [](T x) { return x.log10(); });
  with("log1p", [](T x) { return x.log1p(); });
  with("sqrt", [](T x) { return x.sqrt(); });
  with("rsqrt", [](T x) { return x.rsqrt(); });
  with("asin", [](T x) { return x.asin(); });
  with("acos", [](T x) { return x.acos(); });
  with("acosh", [](T x) { return (x + 1.1).acosh(); });
  with("atanh", [](T x) { return x.atanh(); });
  with("logit", [](T x) { return x.logit(); });
  with("logit_with_eps", [](T x) { return x.logit(0.2); });
  with("xlogy", [](T x) { return torch::xlogy(x - 0.5, x); });
  with("xlogy_of_numbers", [](T x) {
    return Tensors{torch::xlogy(x, 3), torch::xlogy(2.5, x), torch::xlogy(0, x)};
  });
  with("special_xlogy", [](T x) {
    return Tensors{torch::special_xlogy(x, x * 2), torch::special_xlogy(x, 3),
                   torch::special_xlogy(2, x)};
  });
  with("logaddexp", [](T x) { return torch::logaddexp(x, x * 2); });
  return with.take();
}

std::vector<ExportCase> rounding() {
  OperatorTable with(floats());
  with("floor", [](T x) { return x.floor(); });
  with("ceil", [](T x) { return x.ceil(); });
  with("round", [](T x) { return x.round(); });
  with("round_decimals_0", [](T x) { return x.round(0); });
  with("round_to_2_decimals", [](T x) { return x.round(2); });
  with("round_to_tens", [](T x) { return (x * 100).round(-1); });
  with("round_halves", [](T x) { return (x * 4).trunc().div(2).round(); });
  with("trunc", [](T x) { return x.trunc(); });
  with("frac", [](T x) { return x.frac(); });
  return with.take();
}

std::vector<ExportCase> activations() {
  OperatorTable with(floats());
  with("relu", [](T x) { return x.relu(); });
  with("relu6", [](T x) { return F::relu6(x * 5); });
  with("silu", [](T x) { return F::silu(x); });
  with("gelu", [](T x) { return torch::gelu(x); });
  with("gelu_tanh", [](T x) { return torch::gelu(x, "tanh"); });
  with("softplus", [](T x) { return F::softplus(x); });
  with("softplus_above_threshold",
       [](T x) { return F::softplus(x, F::SoftplusFuncOptions().beta(2).threshold(1)); });
  with("softplus_large", [](T x) {
    return F::softplus(x.clamp(-4, 4) * 20, F::SoftplusFuncOptions().threshold(1000));
  });
  with("log_sigmoid", [](T x) { return F::logsigmoid(x * 50); });
  with("mish", [](T x) { return F::mish(x); });
  with("leaky_relu", [](T x) { return torch::leaky_relu(x, 0.2); });
  with("elu", [](T x) { return torch::elu(x, 0.7, 1.5, 2.0); });
  with("celu", [](T x) { return torch::celu(x, 0.7); });
  with("selu", [](T x) { return torch::selu(x); });
  with("hardsigmoid", [](T x) { return torch::hardsigmoid(x * 3); });
  with("hardswish", [](T x) { return torch::hardswish(x * 3); });
  with("hardtanh", [](T x) { return torch::hardtanh(x, -0.5, 0.8); });
  with("threshold", [](T x) { return torch::threshold(x, 0.1, 20); });
  with("prelu", [](T x) { return torch::prelu(x, torch::full({1}, 0.3)); });
  with("glu", [](T x) { return torch::glu(x); });
  with("softsign", [](T x) { return F::softsign(x); });
  with("softmax", [](T x) { return x.softmax(-1); });
  with("softmax_over_length", [](T x) { return x.softmax(1); });
  with("softmax_as_float64", [](T x) { return x.softmax(-1, torch::kDouble); });
  with("softmax_large", [](T x) { return (x * 1000).softmax(-1); });
  with("softmin", [](T x) { return F::softmin(x, F::SoftminFuncOptions(1)); });
  with("log_softmax", [](T x) { return x.log_softmax(-1); });
  with("softmax_kernel", [](T x) { return torch::_softmax(x, -1, false); });
  with("log_softmax_kernel", [](T x) { return torch::_log_softmax(x, -1, false); });
  return with.take();
}

/// Dropout operators with train=false, which return their input.
std::vector<ExportCase> dropouts() {
  OperatorTable with(floats());
  with("dropout", [](T x) { return torch::dropout(x, 0.5, false); });
  with("feature_dropout", [](T x) { return torch::feature_dropout(x, 0.5, false); });
  with("alpha_dropout", [](T x) { return torch::alpha_dropout(x, 0.5, false); });
  with("feature_alpha_dropout", [](T x) { return torch::feature_alpha_dropout(x, 0.5, false); });
  return with.take();
}

/// Functions of integers. Their results must have the same dtypes as in LibTorch.
std::vector<ExportCase> functions_of_integers() {
  OperatorTable with(integers(), "_of_integers");
  with("exp", [](T x) { return x.exp(); });
  with("sqrt", [](T x) { return x.abs().sqrt(); });
  with("log1p", [](T x) { return x.abs().log1p(); });
  with("sigmoid", [](T x) { return x.sigmoid(); });
  with("abs", [](T x) { return x.abs(); });
  with("neg", [](T x) { return -x; });
  with("sign", [](T x) { return x.sign(); });
  with("relu", [](T x) { return x.relu(); });
  with("square", [](T x) { return x.square(); });
  with("floor", [](T x) { return x.floor(); });
  with("round", [](T x) { return x.round(); });
  with("trunc", [](T x) { return x.trunc(); });
  with("softmax", [](T x) { return x.softmax(-1, torch::kFloat); });
  return with.take();
}

/// Functions of float64. Their results must be float64, too.
std::vector<ExportCase> functions_in_float64() {
  OperatorTable with(floats(), "_in_float64", torch::kDouble);
  with("exp", [](T x) { return x.exp(); });
  with("tanh", [](T x) { return x.tanh(); });
  with("sigmoid", [](T x) { return x.sigmoid(); });
  with("round", [](T x) { return x.round(); });
  with("silu", [](T x) { return F::silu(x); });
  with("softplus", [](T x) { return F::softplus(x); });
  with("softmax", [](T x) { return x.softmax(-1); });
  with("log_softmax", [](T x) { return x.log_softmax(-1); });
  return with.take();
}

}  // namespace

std::vector<ExportCase> function_operators() {
  return joined({functions(), functions_of_fractions(), rounding(), activations(), dropouts(),
                 functions_of_integers(), functions_in_float64()});
}

}  // namespace attend
