#include "program/argument_source.h"

#include "attend/input_error.h"
#include "program/schema_enums.h"

#include <ATen/ScalarOps.h>

#include <optional>
#include <type_traits>
#include <utility>

namespace attend::program {
namespace {

using c10::IValue;

/// Makes the Source of an argument. The Source returns the argument, converted to the type that the
/// argument has in the operator's schema.
struct MakeSource {
  const ValueTable& table;
  const c10::TypePtr& type;
  torch::Device device;

  static Source constant(const IValue& value) { return constant_source(value); }
  Source value_at(const std::string& name) const {
    const auto at = table.find(name);
    return {.read = [at](const Values& values) { return values[at]; }, .slots = {at}};
  }
  /// Converts a number to a tensor, since Python accepts a number as a tensor argument, for example
  /// in mul.Tensor(x, 2).
  static IValue as_tensor(const IValue& number) {
    return at::native::wrapped_scalar_tensor(number.toScalar());
  }
  Source number(const IValue& value) const {
    return constant(is_type(c10::TypeKind::TensorType) ? as_tensor(value) : value);
  }
  /// Returns the type of the argument; T if the type is Optional[T].
  c10::TypePtr plain_type() const {
    const auto optional = type->cast<c10::OptionalType>();
    return optional ? optional->getElementType() : type;
  }
  bool is_type(c10::TypeKind kind) const { return plain_type()->kind() == kind; }
  bool is_list_of(c10::TypeKind kind) const {
    const auto list = plain_type()->cast<c10::ListType>();
    return list && list->getElementType()->kind() == kind;
  }

  Source operator()(None) const { return constant(IValue()); }
  Source operator()(const TensorName& tensor) const { return value_at(tensor.name); }
  Source operator()(const SymbolName& symbol) const {
    if (!is_type(c10::TypeKind::TensorType)) return value_at(symbol.name);
    const auto at = table.find(symbol.name);
    return {.read = [at](const Values& values) { return as_tensor(values[at]); }, .slots = {at}};
  }
  Source operator()(int64_t number) const {
    if (is_type(c10::TypeKind::FloatType)) return constant(static_cast<double>(number));
    return this->number(number);
  }
  Source operator()(double number) const { return this->number(number); }
  Source operator()(bool value) const { return number(value); }
  Source operator()(const std::string& text) const { return constant(text); }
  Source operator()(const std::vector<std::string>& texts) const {
    return constant(c10::List<std::string>(texts));
  }
  Source operator()(SchemaDtype dtype) const {
    return constant(static_cast<int64_t>(dtype_of(dtype.value)));
  }
  Source operator()(SchemaLayout layout) const {
    return constant(static_cast<int64_t>(layout_of(layout.value)));
  }
  Source operator()(SchemaMemoryFormat format) const {
    return constant(static_cast<int64_t>(memory_format_of(format.value)));
  }
  /// Returns the source of the device to which the program is loaded, not of the device on which
  /// the program was exported.
  Source operator()(const Device&) const { return constant(device); }

  Source operator()(const std::vector<TensorName>& tensors) const {
    std::vector<OptionalTensor> all(tensors.begin(), tensors.end());
    return (*this)(all);
  }
  Source operator()(const std::vector<OptionalTensor>& tensors) const {
    std::vector<std::optional<std::size_t>> from;
    std::vector<std::size_t> defined;
    for (const auto& tensor : tensors) {
      const auto* name = std::get_if<TensorName>(&tensor);
      from.push_back(name == nullptr ? std::nullopt : std::optional(table.find(name->name)));
      if (from.back()) defined.push_back(*from.back());
    }
    if (is_list_of(c10::TypeKind::OptionalType)) {
      const auto read = [from](const Values& values) {
        c10::List<std::optional<torch::Tensor>> list;
        for (const auto& at : from) {
          list.push_back(at ? std::optional(values[*at].toTensor()) : std::nullopt);
        }
        return IValue(list);
      };
      return {.read = read, .slots = defined};
    }
    if (defined.size() != from.size())
      throw InputError("expected a list of tensors, found a list that contains None");
    const auto read = [defined](const Values& values) {
      c10::List<torch::Tensor> list;
      for (const auto at : defined) list.push_back(values[at].toTensor());
      return IValue(list);
    };
    return {.read = read, .slots = defined};
  }

  template <typename T>
  Source operator()(const std::vector<ValueOrSymbol<T>>& numbers) const {
    std::vector<Source> sources;
    for (const auto& number : numbers) {
      sources.push_back(std::visit([&](const auto& known) { return (*this)(known); }, number));
    }
    if (std::is_same_v<T, double> || is_list_of(c10::TypeKind::FloatType)) {
      return list_of<double>(sources, [](const IValue& v) { return v.toScalar().toDouble(); });
    }
    if (std::is_same_v<T, bool>) {
      return list_of<bool>(sources, [](const IValue& v) { return v.toBool(); });
    }
    return list_of<int64_t>(sources, [](const IValue& v) { return v.toInt(); });
  }
  template <typename T, typename Read>
  static Source list_of(const std::vector<Source>& sources, const Read& item_of) {
    const auto read = [sources, item_of](const Values& values) {
      c10::List<T> list;
      for (const auto& source : sources) list.push_back(item_of(source.read(values)));
      return IValue(list);
    };
    Source list{.read = read, .slots = {}};
    for (const auto& source : sources) {
      list.slots.insert(list.slots.end(), source.slots.begin(), source.slots.end());
    }
    return list;
  }
};

}  // namespace

Source constant_source(const IValue& value) {
  return {.read = [value](const Values&) { return value; }, .slots = {}};
}

Source source_of(const Argument& argument, const c10::TypePtr& type, torch::Device device,
                 const ValueTable& table) {
  return std::visit(MakeSource{table, type, device}, argument);
}

}  // namespace attend::program
