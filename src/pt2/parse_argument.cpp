#include "pt2/parse_argument.h"

#include <fmt/format.h>

#include <map>
#include <string>

namespace attend::pt2 {
namespace {

using namespace program;

OptionalTensor optional_tensor_of(const JsonValue& value) {
  const auto [kind, content] = value.only();
  if (kind == "as_none") return None{};
  if (kind == "as_tensor") return tensor_of(content);
  value.fail(fmt::format("expected as_tensor or as_none, found {}", kind));
}

/// Returns a parser of an object with one key. If the key is `literal`, such as "as_int", parses
/// the value with `read`. If the key is "as_name", the value is the name of a symbol.
template <typename T>
constexpr auto or_symbol(const char* literal, T (JsonValue::*read)() const) {
  return [=](const JsonValue& value) -> ValueOrSymbol<T> {
    const auto [kind, content] = value.only();
    if (kind == "as_name") return SymbolName{content.text()};
    if (kind == literal) return (content.*read)();
    value.fail(fmt::format("expected as_name or {}, found {}", literal, kind));
  };
}
constexpr auto integer_or_symbol = or_symbol("as_int", &JsonValue::integer);
constexpr auto real_or_symbol = or_symbol("as_float", &JsonValue::real);
constexpr auto boolean_or_symbol = or_symbol("as_bool", &JsonValue::boolean);

/// Returns an alternative of a smaller variant as an argument.
template <typename... Types>
Argument argument_from(const std::variant<Types...>& either) {
  return std::visit([](const auto& value) { return Argument(value); }, either);
}

using ReadArgument = std::function<Argument(const JsonValue&)>;

template <typename T, typename Read>
ReadArgument each(Read read) {
  return [read](const JsonValue& list) { return list_of<T>(list, read); };
}

/// Argument is a union type in torch.export's schema. Returns a parser for each member of the union
/// that is supported. The keys of the map are the names of the members.
const std::map<std::string, ReadArgument>& argument_readers() {
  static const std::map<std::string, ReadArgument> all{
      {"as_none", [](const JsonValue&) { return None{}; }},
      {"as_tensor", tensor_of},
      {"as_tensors", each<TensorName>(tensor_of)},
      {"as_optional_tensor", [](const auto& v) { return argument_from(optional_tensor_of(v)); }},
      {"as_optional_tensors", each<OptionalTensor>(optional_tensor_of)},
      {"as_int", &JsonValue::integer},
      {"as_ints", each<ValueOrSymbol<int64_t>>(&JsonValue::integer)},
      {"as_float", &JsonValue::real},
      {"as_floats", each<ValueOrSymbol<double>>(&JsonValue::real)},
      {"as_bool", &JsonValue::boolean},
      {"as_bools", each<ValueOrSymbol<bool>>(&JsonValue::boolean)},
      {"as_string", &JsonValue::text},
      {"as_strings", each<std::string>(&JsonValue::text)},
      {"as_sym_int", [](const auto& v) { return argument_from(integer_or_symbol(v)); }},
      {"as_sym_ints", each<ValueOrSymbol<int64_t>>(integer_or_symbol)},
      {"as_sym_float", [](const auto& v) { return argument_from(real_or_symbol(v)); }},
      {"as_sym_floats", each<ValueOrSymbol<double>>(real_or_symbol)},
      {"as_sym_bool", [](const auto& v) { return argument_from(boolean_or_symbol(v)); }},
      {"as_sym_bools", each<ValueOrSymbol<bool>>(boolean_or_symbol)},
      {"as_scalar_type", [](const auto& v) { return SchemaDtype{v.integer()}; }},
      {"as_layout", [](const auto& v) { return SchemaLayout{v.integer()}; }},
      {"as_memory_format", [](const auto& v) { return SchemaMemoryFormat{v.integer()}; }},
      {"as_device", device_of},
  };
  return all;
}

}  // namespace

Argument argument_of(const JsonValue& value) {
  const auto [kind, content] = value.only();
  const auto reader = argument_readers().find(kind);
  if (reader == argument_readers().end()) {
    value.fail(fmt::format("arguments of kind '{}' are not supported", kind));
  }
  return reader->second(content);
}

TensorName tensor_of(const JsonValue& value) {
  return {value.at("name").text()};
}

Device device_of(const JsonValue& value) {
  Device device{.type = value.at("type").text(), .index = {}};
  if (value.has("index")) device.index = value.at("index").integer();
  return device;
}

}  // namespace attend::pt2
