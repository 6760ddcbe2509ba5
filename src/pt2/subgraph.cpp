#include "pt2/subgraph.h"

#include "attend/input_error.h"
#include "program/target.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace attend::pt2 {
namespace {

using namespace program;

/// Renames the values of a subgraph to the names that the values have in the outer graph.
class Renaming {
 public:
  explicit Renaming(std::string prefix) : prefix_(std::move(prefix)) {}

  void add(const std::string& inside, const std::string& outside) { names_[inside] = outside; }

  Argument operator()(const Argument& argument) const {
    return std::visit([&](const auto& value) { return Argument(renamed(value)); }, argument);
  }

 private:
  std::string name(const std::string& inside) const {
    const auto found = names_.find(inside);
    return found == names_.end() ? prefix_ + inside : found->second;
  }

  template <typename T>
  T renamed(const T& value) const {
    return value;  // T contains no names
  }
  TensorName renamed(const TensorName& tensor) const { return {name(tensor.name)}; }
  SymbolName renamed(const SymbolName& symbol) const { return {name(symbol.name)}; }
  template <typename... Types>
  std::variant<Types...> renamed(const std::variant<Types...>& value) const {
    return std::visit([&](const auto& held) { return std::variant<Types...>(renamed(held)); },
                      value);
  }
  template <typename T>
  std::vector<T> renamed(const std::vector<T>& values) const {
    std::vector<T> all;
    for (const auto& value : values) all.push_back(renamed(value));
    return all;
  }

  std::string prefix_;
  std::map<std::string, std::string> names_;  // names in the outer graph, by name in the subgraph
};

/// Returns an identity node, which defines the name `to` with the value of `from`. A tensor is
/// detached if `grad_enabled` is false.
Node identity(const Argument& from, const Argument& to, bool grad_enabled) {
  if (std::holds_alternative<SymbolName>(from)) {
    // sym_max of a value and itself is the value, also if it is a float or bool. sym_int would
    // convert the value to an int.
    return {.target = "torch.sym_max", .inputs = {{"a", from}, {"b", from}}, .outputs = {to}};
  }
  return {.target = target_of(grad_enabled ? "aten::alias" : "aten::detach", ""),
          .inputs = {{"self", from}},
          .outputs = {to}};
}

/// Throws InputError unless both lists contain only names of tensors and symbols, and have the same
/// length and the same types. `what` describes the lists in the error message.
void check_same_types(const std::vector<Argument>& some, const std::vector<Argument>& others,
                      const char* what) {
  const auto fail = [&] {
    throw InputError(
        fmt::format("the {} of the subgraph do not match the {} of its call", what, what));
  };
  if (some.size() != others.size()) fail();
  for (std::size_t i = 0; i < some.size(); ++i) {
    const bool are_names =
        std::holds_alternative<TensorName>(some[i]) || std::holds_alternative<SymbolName>(some[i]);
    if (!are_names || some[i].index() != others[i].index()) fail();
  }
}

std::string name_of(const Argument& argument) {
  const auto* tensor = std::get_if<TensorName>(&argument);
  return tensor != nullptr ? tensor->name : std::get<SymbolName>(argument).name;
}

}  // namespace

void inline_subgraph(const Subgraph& subgraph, std::vector<Node>& nodes) {
  check_same_types(subgraph.inputs, subgraph.arguments, "inputs");
  check_same_types(subgraph.outputs, subgraph.results, "outputs");
  Renaming renaming(fmt::format("{}/", nodes.size()));  // each subgraph has its own prefix
  for (std::size_t i = 0; i < subgraph.inputs.size(); ++i) {
    renaming.add(name_of(subgraph.inputs[i]), name_of(subgraph.arguments[i]));
  }
  for (auto node : subgraph.nodes) {
    for (auto& input : node.inputs) input.value = renaming(input.value);
    for (auto& output : node.outputs) output = renaming(output);
    nodes.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < subgraph.outputs.size(); ++i) {
    nodes.push_back(
        identity(renaming(subgraph.outputs[i]), subgraph.results[i], subgraph.grad_enabled));
  }
}

}  // namespace attend::pt2
