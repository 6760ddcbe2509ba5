#include "attend/nn/norms.h"

#include "nn/checks.h"
#include "nn/decoding_plan.h"
#include "ops/math_type.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/rms_norm.h>
#include <torch/nn/functional/normalization.h>

#include <cmath>

namespace attend {

LayerNormImpl::LayerNormImpl(const LayerNormOptions& options) : options(options) {
  reset();
}

void LayerNormImpl::reset() {
  check_positive("width", options.width());
  check_not_negative("eps", options.eps());
  check_finite("eps", options.eps());
  weight = register_parameter("weight", torch::ones({options.width()}));
  if (options.bias()) bias = register_parameter("bias", torch::zeros({options.width()}));
}

torch::Tensor LayerNormImpl::forward(const torch::Tensor& x) {
  check_last_dimension("LayerNorm", x, options.width());
  const auto y = norm_of_few_rows(x, step_of(*this));
  return y.defined() ? y : torch::layer_norm(x, {options.width()}, weight, bias, options.eps());
}

void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::LayerNorm(width=" << options.width() << ", eps=" << options.eps()
         << std::boolalpha << ", bias=" << options.bias() << ")";
}

RMSNormImpl::RMSNormImpl(const RMSNormOptions& options) : options(options) {
  reset();
}

void RMSNormImpl::reset() {
  check_positive("width", options.width());
  if (options.eps()) {
    check_not_negative("eps", *options.eps());
    check_finite("eps", *options.eps());
  }
  weight = register_parameter("weight", torch::ones({options.width()}));
}

torch::Tensor RMSNormImpl::forward(const torch::Tensor& x) {
  check_last_dimension("RMSNorm", x, options.width());
  const auto y = norm_of_few_rows(x, step_of(*this));
  if (y.defined()) return y;
  // Autocast selects the dtypes itself.
  const bool is_wider = weight.element_size() > x.element_size() &&
                        !at::autocast::is_autocast_enabled(x.device().type());
  if (!is_wider) return at::rms_norm(x, {options.width()}, weight, options.eps());
  const auto wide = x.to(weight.scalar_type());
  return at::rms_norm(wide, {options.width()}, weight, options.eps()).type_as(x);
}

void RMSNormImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::RMSNorm(width=" << options.width() << ", eps=";
  if (options.eps()) {
    stream << *options.eps() << ")";
  } else {
    stream << "dtype epsilon)";
  }
}

L2NormImpl::L2NormImpl(int64_t width) : width(width) {
  reset();
}

void L2NormImpl::reset() {
  check_positive("width", width);
  scale = register_parameter(
      "scale", torch::tensor(std::sqrt(static_cast<double>(width)), torch::get_default_dtype()));
}

torch::Tensor L2NormImpl::forward(const torch::Tensor& x) {
  check_last_dimension("L2Norm", x, width);
  const auto options = torch::nn::functional::NormalizeFuncOptions().dim(-1);
  // Computed in float32 or wider. In float16, normalize's epsilon (1e-12) would be rounded to 0,
  // and a vector of zeros would give NaN.
  const auto exact = to_math_type(x, x);
  return torch::nn::functional::normalize(exact, options).type_as(x) * scale;
}

void L2NormImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::L2Norm(width=" << width << ")";
}

ModuleFactory layer_norm(double eps, bool bias) {
  return [=](int64_t width) {
    return torch::nn::AnyModule(LayerNorm(LayerNormOptions(width).eps(eps).bias(bias)));
  };
}

ModuleFactory rms_norm(std::optional<double> eps) {
  return
      [=](int64_t width) { return torch::nn::AnyModule(RMSNorm(RMSNormOptions(width).eps(eps))); };
}

ModuleFactory l2_norm() {
  return [](int64_t width) { return torch::nn::AnyModule(L2Norm(width)); };
}

}  // namespace attend
