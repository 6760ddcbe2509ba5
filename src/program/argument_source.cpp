#include "program/argument_source.h"

#include "attend/input_error.h"
#include "program/schema_enums.h"

#include <ATen/ScalarOps.h>

#include <functional>
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

  static Source constant(const IValue& value) { return {.constant = value}; }
  /// Returns the source of a value that `compute` computes from other sources.
  static Source computed(const std::vector<Source>& parts,
                         std::function<IValue(const Values&)> compute) {
    Source source{.compute = std::move(compute)};
    for (const auto& part : parts) {
      source.slots.insert(source.slots.end(), part.slots.begin(), part.slots.end());
    }
    return source.slots.empty() ? constant(source.compute({})) : source;
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
  Source operator()(const TensorName& tensor) const { return table.find(tensor.name); }
  Source operator()(const SymbolName& symbol) const {
    const auto& source = table.find(symbol.name);
    if (!is_type(c10::TypeKind::TensorType)) return source;
    return computed({source}, [source](const auto& v) { return as_tensor(source.read(v)); });
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
    std::vector<Source> sources;
    bool contains_none = false;
    for (const auto& tensor : tensors) {
      const auto* name = std::get_if<TensorName>(&tensor);
      contains_none |= name == nullptr;
      sources.push_back(name == nullptr ? constant({}) : table.find(name->name));
    }
    if (is_list_of(c10::TypeKind::OptionalType)) {
      return list_of<std::optional<torch::Tensor>>(
          sources, [](const IValue& v) { return v.toOptional<torch::Tensor>(); });
    }
    if (contains_none) {
      throw InputError("expected a list of tensors, found a list that contains None");
    }
    return list_of<torch::Tensor>(sources, [](const IValue& v) { return v.toTensor(); });
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
    return computed(sources, [sources, item_of](const Values& values) {
      c10::List<T> list;
      list.reserve(sources.size());
      for (const auto& source : sources) list.push_back(item_of(source.read(values)));
      return IValue(std::move(list));
    });
  }
};

}  // namespace

Source source_of(const Argument& argument, const c10::TypePtr& type, torch::Device device,
                 const ValueTable& table) {
  return std::visit(MakeSource{table, type, device}, argument);
}

}  // namespace attend::program
