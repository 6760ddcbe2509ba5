#include "export/program/sym_int_nodes.h"

#include "export/program/node_arguments.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::program {

std::string unique_name(const ExportedProgram& program, const std::string& base) {
  auto name = base;
  for (int i = 1; program.tensors.count(name) + program.sym_ints.count(name) > 0; ++i) {
    name = fmt::format("{}_{}", base, i);
  }
  return name;
}

Size computed_size(const ExportedProgram& program, const Node& node) {
  if (node.target == "torch.ops.aten.sym_size.int") {
    const auto& sizes = program.tensors.at(required_argument<TensorName>(node, "self").name).sizes;
    return sizes.at(static_cast<std::size_t>(required_argument<int64_t>(node, "dim")));
  }
  if (node.target == "math.trunc") {  // of the square root of a SymInt
    const auto& root = required_argument<SymbolName>(node, "a").name;
    const auto source =
        std::find_if(program.nodes.begin(), program.nodes.end(), [&](const Node& other) {
          const auto* output = std::get_if<SymbolName>(&other.outputs.front());
          return output != nullptr && output->name == root;
        });
    TORCH_INTERNAL_ASSERT(source != program.nodes.end() && source->target == "torch.sym_sqrt");
    return sqrt(program.sym_ints.at(required_argument<SymbolName>(*source, "a").name));
  }
  const auto size_in = [&](const char* name) {
    const auto* symbol = find_argument<SymbolName>(node, name);
    return symbol != nullptr ? program.sym_ints.at(symbol->name)
                             : Size{required_argument<int64_t>(node, name)};
  };
  const auto function = std::ranges::find(kSizeFunctions, node.target, &SizeFunction::target);
  TORCH_INTERNAL_ASSERT(function != kSizeFunctions.end(), node.target);
  return function->apply(size_in("a"), size_in("b"));
}

SymbolName SymIntNodes::size_of(const TensorName& tensor, int64_t dimension, const Size& size) {
  const SymbolName name{unique_name(program_, "sym_int")};
  program_.sym_ints[name.name] = size;
  nodes_.push_back({.target = "torch.ops.aten.sym_size.int",
                    .inputs = {{"self", tensor}, {"dim", dimension}},
                    .outputs = {name}});
  return name;
}

SymbolName SymIntNodes::add(Kind function, const SymbolName& a, const Argument& b) {
  const SymbolName name{unique_name(program_, "sym_int")};
  const auto target = std::ranges::find(kSizeFunctions, function, &SizeFunction::kind)->target;
  nodes_.push_back(
      {.target = std::string(target), .inputs = {{"a", a}, {"b", b}}, .outputs = {name}});
  program_.sym_ints[name.name] = computed_size(program_, nodes_.back());
  return name;
}

}  // namespace attend::program
