#include "attend/export/onnx_translation.h"

#include "export/onnx/rules.h"
#include "io/dtypes.h"
#include "program/target.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <utility>

namespace attend {
namespace {

onnx::Type onnx_type_of(c10::ScalarType dtype) {
  const auto* found = find_dtype(&Dtype::type, dtype);
  TORCH_CHECK_VALUE(found != nullptr && found->onnx != 0, "dtype ", c10::toString(dtype),
                    " is not supported by the ONNX exporter");
  return static_cast<onnx::Type>(found->onnx);
}

OnnxValue public_value(onnx::Value value) {
  return {value.id, find_dtype(&Dtype::onnx, static_cast<int32_t>(value.type))->type};
}

std::vector<OnnxValue> public_values(const std::vector<onnx::Value>& values) {
  std::vector<OnnxValue> all;
  for (const auto& value : values) all.push_back(public_value(value));
  return all;
}

onnx::Value internal_value(const OnnxValue& value) {
  return {value.id, onnx_type_of(value.dtype)};
}

std::vector<onnx::Value> internal_values(const std::vector<OnnxValue>& values) {
  std::vector<onnx::Value> all;
  for (const auto& value : values) all.push_back(internal_value(value));
  return all;
}

onnx::Attributes internal_attributes(const OnnxAttributes& attributes) {
  onnx::Attributes all;
  for (const auto& [name, attribute] : attributes) {
    std::visit([&, &key = name](const auto& value) { all.emplace(key, value); }, attribute);
  }
  return all;
}

}  // namespace

bool OnnxCall::has(const std::string& name) const {
  return call_.has(name);
}

int64_t OnnxCall::opset() const {
  return call_.graph().opset();
}

OnnxValue OnnxCall::tensor(const std::string& name) {
  return public_value(call_.tensor(name));
}

std::vector<OnnxValue> OnnxCall::tensors(const std::string& name) {
  return public_values(call_.tensors(name));
}

int64_t OnnxCall::rank(const std::string& name) const {
  return call_.rank(name);
}

int64_t OnnxCall::integer(const std::string& name) const {
  return call_.integer(name);
}

double OnnxCall::real(const std::string& name) const {
  return call_.real(name);
}

bool OnnxCall::boolean(const std::string& name) const {
  return call_.boolean(name);
}

std::string OnnxCall::string(const std::string& name) const {
  return call_.string(name);
}

std::vector<int64_t> OnnxCall::integers(const std::string& name) const {
  return call_.integers(name);
}

OnnxValue OnnxCall::add(const std::string& op_type, const std::vector<OnnxValue>& inputs,
                        const OnnxAttributes& attributes, std::optional<c10::ScalarType> dtype) {
  const auto type = dtype ? std::optional(onnx_type_of(*dtype)) : std::nullopt;
  return public_value(
      call_.graph().add(op_type, internal_values(inputs), internal_attributes(attributes), type));
}

std::vector<OnnxValue> OnnxCall::add(const std::string& op_type,
                                     const std::vector<OnnxValue>& inputs,
                                     const OnnxAttributes& attributes,
                                     const std::vector<c10::ScalarType>& dtypes) {
  std::vector<onnx::Type> types;
  for (const auto dtype : dtypes) types.push_back(onnx_type_of(dtype));
  return public_values(
      call_.graph().add(op_type, internal_values(inputs), internal_attributes(attributes), types));
}

OnnxValue OnnxCall::constant(const at::Tensor& tensor) {
  onnx::Constant constant{onnx_type_of(tensor.scalar_type()), tensor.sizes().vec(), {}};
  const auto flat = tensor.detach().cpu().contiguous().view({-1});
  if (tensor.is_floating_point()) {
    const auto numbers = flat.to(at::kDouble);
    const auto* data = numbers.const_data_ptr<double>();
    constant.numbers.assign(data, data + numbers.numel());
  } else {
    const auto numbers = flat.to(at::kLong);
    const auto* data = numbers.const_data_ptr<int64_t>();
    constant.numbers.assign(data, data + numbers.numel());
  }
  return public_value(call_.graph().constant(constant));
}

OnnxValue OnnxCall::cast(OnnxValue value, c10::ScalarType dtype) {
  return public_value(call_.graph().cast(internal_value(value), onnx_type_of(dtype)));
}

void OnnxCall::set_output(OnnxValue value, std::size_t i) {
  TORCH_CHECK_VALUE(i < call_.num_outputs(), "the index of an output (", i,
                    ") must be less than the number of outputs (", call_.num_outputs(), ")");
  call_.set_output(internal_value(value), i);
}

void OnnxCall::fail(const std::string& why) const {
  call_.fail(why);
}

void register_onnx_translation(const std::string& name, OnnxTranslation translation) {
  const auto dot = name.find('.');
  const auto operator_name = name.substr(0, dot);
  const auto overload = dot == std::string::npos ? std::string() : name.substr(dot + 1);
  TORCH_CHECK_VALUE(c10::Dispatcher::singleton().findSchema({operator_name, overload}),
                    "expected the name of an operator, such as mylib::clip or aten::add.Tensor, "
                    "found '",
                    name, "', which no operator has");
  const bool is_new = onnx::add_user_rule(program::target_of(operator_name, overload),
                                          [rule = std::move(translation)](auto& call) {
                                            OnnxCall user_call(call);
                                            rule(user_call);
                                          });
  TORCH_CHECK_VALUE(is_new, "a translation of '", name, "' has been registered already");
}

}  // namespace attend
