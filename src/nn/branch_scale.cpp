#include "attend/nn/branch_scale.h"

#include "nn/checks.h"

namespace attend {

LayerScaleImpl::LayerScaleImpl(const LayerScaleOptions& options) : options(options) {
  reset();
}

void LayerScaleImpl::reset() {
  check_positive("width", options.width());
  check_finite("init", options.init());
  weight = register_parameter("weight", torch::full({options.width()}, options.init()));
}

torch::Tensor LayerScaleImpl::forward(const torch::Tensor& x) {
  check_last_dimension("LayerScale", x, options.width());
  return x * weight;
}

void LayerScaleImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::LayerScale(width=" << options.width() << ", init=" << options.init() << ")";
}

ReZeroImpl::ReZeroImpl() {
  reset();
}

void ReZeroImpl::reset() {
  weight = register_parameter("weight", torch::zeros({}));
}

torch::Tensor ReZeroImpl::forward(const torch::Tensor& x) {
  return x * weight;
}

void ReZeroImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::ReZero()";
}

ConstantScaleImpl::ConstantScaleImpl(double factor) : factor(factor) {
  reset();
}

void ConstantScaleImpl::reset() {
  check_finite("factor", factor);
}

torch::Tensor ConstantScaleImpl::forward(const torch::Tensor& x) {
  return x * factor;
}

void ConstantScaleImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::ConstantScale(factor=" << factor << ")";
}

ModuleFactory layer_scale(double init) {
  return [=](int64_t width) {
    return torch::nn::AnyModule(LayerScale(LayerScaleOptions(width).init(init)));
  };
}

ModuleFactory rezero() {
  return [](int64_t) { return torch::nn::AnyModule(ReZero()); };
}

ModuleFactory constant_scale(double factor) {
  return [=](int64_t) { return torch::nn::AnyModule(ConstantScale(factor)); };
}

}  // namespace attend
