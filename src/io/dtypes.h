#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace attend {

/// The representations of a dtype in the file formats that this library reads and writes. The name
/// of the dtype in Python is `c10::getDtypeNames(type).first`.
struct Dtype {
  c10::ScalarType type;
  std::string_view safetensors;  ///< name in safetensors; empty if not supported
  int64_t schema;  ///< value in torch.export's schema, torch/_export/serde/schema.py; 0 if none
  int32_t onnx;    ///< value in ONNX's TensorProto.DataType; 0 if not supported
};

inline constexpr std::array<Dtype, 21> kDtypes{{
    {c10::ScalarType::Bool, "BOOL", 12, 9},
    {c10::ScalarType::Byte, "U8", 1, 2},
    {c10::ScalarType::Char, "I8", 2, 3},
    {c10::ScalarType::Short, "I16", 3, 5},
    {c10::ScalarType::UInt16, "U16", 28, 0},
    {c10::ScalarType::Int, "I32", 4, 6},
    {c10::ScalarType::UInt32, "U32", 34, 0},
    {c10::ScalarType::Long, "I64", 5, 7},
    {c10::ScalarType::UInt64, "U64", 35, 0},
    {c10::ScalarType::Half, "F16", 6, 10},
    {c10::ScalarType::BFloat16, "BF16", 13, 16},
    {c10::ScalarType::Float, "F32", 7, 1},
    {c10::ScalarType::Double, "F64", 8, 11},
    {c10::ScalarType::ComplexFloat, "C64", 10, 0},
    {c10::ScalarType::ComplexDouble, "", 11, 0},
    {c10::ScalarType::Float8_e4m3fn, "F8_E4M3", 29, 0},
    {c10::ScalarType::Float8_e5m2, "F8_E5M2", 30, 0},
    {c10::ScalarType::Float8_e4m3fnuz, "F8_E4M3FNUZ", 31, 0},
    {c10::ScalarType::Float8_e5m2fnuz, "F8_E5M2FNUZ", 32, 0},
    {c10::ScalarType::Float8_e8m0fnu, "F8_E8M0", 33, 0},
    {c10::ScalarType::Float4_e2m1fn_x2, "F4", 0, 0},
}};

/// Returns the dtype whose member `field` equals `value`, or null if there is none.
///
///     find_dtype(&Dtype::safetensors, "F32")->type == torch::kFloat
template <typename Field, typename Value>
const Dtype* find_dtype(Field Dtype::*field, const Value& value) {
  for (const auto& dtype : kDtypes) {
    if (dtype.*field == value) return &dtype;
  }
  return nullptr;
}

}  // namespace attend
