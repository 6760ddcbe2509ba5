#include "export/program/checked_program.h"

#include "export/program/size_expression.h"
#include "export/program/unknown_dimensions.h"

#include <fmt/format.h>

#include <map>
#include <regex>
#include <stdexcept>
#include <string>

namespace attend::program {
namespace {

/// Returns the values of the symbols for the given inputs.
std::map<std::string, int64_t> symbols_of(const ExportedProgram& program,
                                          const std::vector<torch::Tensor>& inputs) {
  std::map<std::string, int64_t> symbols;
  std::size_t next = 0;
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::user) continue;
    const auto& sizes = program.tensors.at(input.name).sizes;
    const auto& tensor = inputs.at(next++);
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const auto symbol = symbol_in(sizes[d].expression);
      if (!symbol.empty()) symbols[symbol] = tensor.size(static_cast<int64_t>(d));
    }
  }
  return symbols;
}

std::map<std::string, torch::Tensor> clones_of(
    const std::map<std::string, torch::Tensor>& weights) {
  std::map<std::string, torch::Tensor> copies;
  for (const auto& [name, weight] : weights) copies.emplace(name, weight.clone());
  return copies;
}

/// Returns an expression with plain names and numbers, such as "Add(s0, 2)".
std::string readable(const std::string& expression) {
  if (expression.empty()) return "at all sizes";
  static const std::regex kAtom("(?:Symbol|Integer)\\('?([\\w-]+)[^)]*\\)");
  return std::regex_replace(expression, kAtom, "$1");
}

}  // namespace

CheckedProgram::CheckedProgram(const TracedProgram& traced, torch::Device device)
    : program_(traced.program),
      runner_(traced.program, clones_of(traced.weights), device, {.namespaces = {"aten"}}) {}

std::vector<torch::Tensor> CheckedProgram::run(const std::vector<torch::Tensor>& inputs) const {
  auto symbols = symbols_of(program_, inputs);
  return runner_.run(inputs, [&](const std::string& name, const torch::Tensor& tensor) {
    const auto& sizes = program_.tensors.at(name).sizes;
    if (static_cast<std::size_t>(tensor.dim()) != sizes.size()) {
      throw std::runtime_error(fmt::format("the traced tensor '{}' has {} dimensions, expected {}",
                                           name, tensor.dim(), sizes.size()));
    }
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (is_unknown(sizes[d])) continue;
      const auto found = tensor.size(static_cast<int64_t>(d));
      const auto symbol = symbol_in(sizes[d].expression);
      if (!symbol.empty() && is_unbacked(sizes[d].expression)) symbols.try_emplace(symbol, found);
      const auto expected = evaluate(sizes[d], symbols);
      if (found == expected) continue;
      throw std::runtime_error(
          fmt::format("dimension {} of the traced tensor '{}' has size {}, expected {} ({})", d,
                      name, found, expected, readable(sizes[d].expression)));
    }
  });
}

}  // namespace attend::program
