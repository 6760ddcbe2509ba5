#include "support/user_operators.h"

#include "attend/export/onnx_translation.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace attend::user {
namespace {

torch::Tensor clip_below_kernel(const torch::Tensor& x, double limit) {
  return x.clamp_min(limit);
}

torch::Tensor gelu_kernel(const torch::Tensor& x) {
  return torch::gelu(x);
}

std::tuple<torch::Tensor, torch::Tensor> bounds_kernel(const torch::Tensor& x,
                                                       at::IntArrayRef dims) {
  return {x.amin(dims), x.amax(dims)};
}

torch::Tensor untranslated_kernel(const torch::Tensor& x) {
  return x.clone();
}

TORCH_LIBRARY(attend_test, library) {
  library.def("clip_below.number(Tensor x, float limit) -> Tensor", clip_below_kernel);
  library.def("gelu(Tensor x) -> Tensor", gelu_kernel);
  library.def("bounds(Tensor x, int[] dims) -> (Tensor, Tensor)", bounds_kernel);
  library.def("untranslated(Tensor x) -> Tensor", untranslated_kernel);
}

template <typename Signature>
auto operator_of(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

using OfTensor = torch::Tensor(const torch::Tensor&);

}  // namespace

torch::Tensor clip_below(const torch::Tensor& x, double limit) {
  using Signature = torch::Tensor(const torch::Tensor&, double);
  return operator_of<Signature>("attend_test::clip_below", "number").call(x, limit);
}

torch::Tensor gelu(const torch::Tensor& x) {
  return operator_of<OfTensor>("attend_test::gelu").call(x);
}

std::tuple<torch::Tensor, torch::Tensor> bounds(const torch::Tensor& x, at::IntArrayRef dims) {
  using Signature = std::tuple<torch::Tensor, torch::Tensor>(const torch::Tensor&, at::IntArrayRef);
  return operator_of<Signature>("attend_test::bounds").call(x, dims);
}

torch::Tensor untranslated(const torch::Tensor& x) {
  return operator_of<OfTensor>("attend_test::untranslated").call(x);
}

void register_translations() {
  static const bool registered = [] {
    register_onnx_translation("attend_test::clip_below.number", [](OnnxCall& call) {
      const auto limit = call.constant(torch::tensor(call.real("limit"), torch::kDouble));
      const auto x = call.tensor("x");
      call.set_output(call.add("Max", {x, call.cast(limit, x.dtype)}));
    });
    register_onnx_translation("attend_test::gelu", [](OnnxCall& call) {
      call.set_output(call.add("com.microsoft::Gelu", {call.tensor("x")}));
    });
    register_onnx_translation("attend_test::bounds", [](OnnxCall& call) {
      const auto x = call.tensor("x");
      const auto dims = call.constant(torch::tensor(call.integers("dims"), torch::kLong));
      call.set_output(call.add("ReduceMin", {x, dims}, {{"keepdims", 0}}), 0);
      call.set_output(call.add("ReduceMax", {x, dims}, {{"keepdims", 0}}), 1);
    });
    return true;
  }();
  static_cast<void>(registered);
}

}  // namespace attend::user
