#include "export/program/codes.h"

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
using Codes = std::array<std::pair<int64_t, Value>, N>;

constexpr Codes<ScalarType, 15> kDtypes{{{1, ScalarType::Byte},
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
constexpr Codes<Layout, 1> kLayouts{{{7, Layout::Strided}}};
constexpr Codes<MemoryFormat, 4> kMemoryFormats{{{1, MemoryFormat::Contiguous},
                                                 {2, MemoryFormat::ChannelsLast},
                                                 {3, MemoryFormat::ChannelsLast3d},
                                                 {4, MemoryFormat::Preserve}}};

template <typename Value, std::size_t N>
Value find(const Codes<Value, N>& codes, int64_t number, const char* what) {
  for (const auto& [code, value] : codes) {
    if (code == number) return value;
  }
  throw InputError(fmt::format("{} {} is not supported", what, number));
}

template <typename Value, std::size_t N>
int64_t find_number(const Codes<Value, N>& codes, Value wanted) {
  for (const auto& [code, value] : codes) {
    if (value == wanted) return code;
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

int64_t number_of(ScalarType dtype) {
  return find_number(kDtypes, dtype);
}

int64_t number_of(Layout layout) {
  return find_number(kLayouts, layout);
}

int64_t number_of(MemoryFormat format) {
  return find_number(kMemoryFormats, format);
}

Device device_of(const c10::Device& device) {
  return {.type = c10::DeviceTypeName(device.type(), /*lower_case=*/true),
          .index = device.has_index() ? std::optional<int64_t>(device.index()) : std::nullopt};
}

}  // namespace attend::program
