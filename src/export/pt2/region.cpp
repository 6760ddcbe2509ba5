#include "export/pt2/region.h"

#include "attend/input_error.h"
#include "export/program/target.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace attend::pt2 {
namespace {

using namespace program;

/// Gives what stands inside a region the names that it has outside.
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
    return value;  // it holds no name
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
  std::map<std::string, std::string> names_;  // of inputs
};

/// A node that gives what it gets another name.
Node rename(const Argument& from, const Argument& to, bool has_gradients) {
  if (std::holds_alternative<SymbolName>(from)) {
    return {.target = "torch.sym_int", .inputs = {{"a", from}}, .outputs = {to}};
  }
  return {.target = target_of(has_gradients ? "aten::alias" : "aten::detach", ""),
          .inputs = {{"self", from}},
          .outputs = {to}};
}

/// Tensors or numbers, both of one kind.
void check_names(const std::vector<Argument>& some, const std::vector<Argument>& others,
                 const char* what) {
  const auto fail = [&] { throw InputError(fmt::format("{} do not fit the graph", what)); };
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

void add_nodes(const Region& region, std::vector<Node>& nodes) {
  check_names(region.inputs, region.arguments, "the arguments");
  check_names(region.outputs, region.results, "the results");
  Renaming renaming(fmt::format("{}/", nodes.size()));  // another one for each region of a graph
  for (std::size_t i = 0; i < region.inputs.size(); ++i) {
    renaming.add(name_of(region.inputs[i]), name_of(region.arguments[i]));
  }
  for (auto node : region.nodes) {
    for (auto& input : node.inputs) input.value = renaming(input.value);
    for (auto& output : node.outputs) output = renaming(output);
    nodes.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < region.outputs.size(); ++i) {
    nodes.push_back(rename(renaming(region.outputs[i]), region.results[i], region.has_gradients));
  }
}

}  // namespace attend::pt2
