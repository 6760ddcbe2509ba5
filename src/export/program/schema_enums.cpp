#include "export/program/schema_enums.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <array>
#include <sstream>
#include <utility>

namespace attend::program {
namespace {

using c10::Layout;
using c10::MemoryFormat;
using c10::ScalarType;

template <typename Value, std::size_t N>
using EnumTable = std::array<std::pair<int64_t, Value>, N>;

constexpr EnumTable<ScalarType, 15> kDtypes{{{1, ScalarType::Byte},
                                             {2, ScalarType::Char},
                                             {3, ScalarType::Short},
                                             {4, ScalarType::Int},
                                             {5, ScalarType::Long},
                                             {6, ScalarType::Half},
                                             {7, ScalarType::Float},
                                             {8, ScalarType::Double},
                                             {10, ScalarType::ComplexFloat},
                                             {11, ScalarType::ComplexDouble},
                                             {12, ScalarType::Bool},
                                             {13, ScalarType::BFloat16},
                                             {28, ScalarType::UInt16},
                                             {29, ScalarType::Float8_e4m3fn},
                                             {30, ScalarType::Float8_e5m2}}};
constexpr EnumTable<Layout, 1> kLayouts{{{7, Layout::Strided}}};
constexpr EnumTable<MemoryFormat, 4> kMemoryFormats{{{1, MemoryFormat::Contiguous},
                                                     {2, MemoryFormat::ChannelsLast},
                                                     {3, MemoryFormat::ChannelsLast3d},
                                                     {4, MemoryFormat::Preserve}}};

template <typename Value, std::size_t N>
Value find(const EnumTable<Value, N>& table, int64_t number, const char* what) {
  for (const auto& [schema_enum, value] : table) {
    if (schema_enum == number) return value;
  }
  throw InputError(fmt::format("{} {} is not supported", what, number));
}

template <typename Value, std::size_t N>
int64_t find_enum(const EnumTable<Value, N>& table, Value wanted) {
  for (const auto& [schema_enum, value] : table) {
    if (value == wanted) return schema_enum;
  }
  std::ostringstream name;
  name << wanted;
  throw InputError(fmt::format("{} is not supported", name.str()));
}

}  // namespace

ScalarType dtype_of(int64_t number) {
  return find(kDtypes, number, "dtype");
}

Layout layout_of(int64_t number) {
  return find(kLayouts, number, "layout");
}

MemoryFormat memory_format_of(int64_t number) {
  return find(kMemoryFormats, number, "memory format");
}

int64_t schema_enum(ScalarType dtype) {
  return find_enum(kDtypes, dtype);
}

int64_t schema_enum(Layout layout) {
  return find_enum(kLayouts, layout);
}

int64_t schema_enum(MemoryFormat format) {
  return find_enum(kMemoryFormats, format);
}

Device device_of(const c10::Device& device) {
  return {.type = c10::DeviceTypeName(device.type(), /*lower_case=*/true),
          .index = device.has_index() ? std::optional<int64_t>(device.index()) : std::nullopt};
}

}  // namespace attend::program
