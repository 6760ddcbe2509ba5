#include "program/schema_enums.h"

#include "attend/input_error.h"
#include "io/dtypes.h"

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
  throw InputError(fmt::format("{} {} of torch.export's schema is not supported", what, number));
}

template <typename Value, std::size_t N>
int64_t find_enum(const EnumTable<Value, N>& table, Value wanted, const char* what) {
  for (const auto& [schema_enum, value] : table) {
    if (value == wanted) return schema_enum;
  }
  std::ostringstream name;
  name << wanted;
  throw InputError(fmt::format("{} {} is not supported", what, name.str()));
}

}  // namespace

ScalarType dtype_of(int64_t number) {
  const auto* dtype = number == 0 ? nullptr : find_dtype(&Dtype::schema, number);
  if (dtype == nullptr)
    throw InputError(fmt::format("dtype {} of torch.export's schema is not supported", number));
  return dtype->type;
}

Layout layout_of(int64_t number) {
  return find(kLayouts, number, "layout");
}

MemoryFormat memory_format_of(int64_t number) {
  return find(kMemoryFormats, number, "memory format");
}

int64_t schema_enum(ScalarType dtype) {
  const auto* found = find_dtype(&Dtype::type, dtype);
  if (found == nullptr || found->schema == 0) {
    throw InputError(fmt::format("dtype {} is not supported", c10::toString(dtype)));
  }
  return found->schema;
}

int64_t schema_enum(Layout layout) {
  return find_enum(kLayouts, layout, "layout");
}

int64_t schema_enum(MemoryFormat format) {
  return find_enum(kMemoryFormats, format, "memory format");
}

Device device_of(const c10::Device& device) {
  return {.type = c10::DeviceTypeName(device.type(), /*lower_case=*/true),
          .index = device.has_index() ? std::optional<int64_t>(device.index()) : std::nullopt};
}

}  // namespace attend::program
