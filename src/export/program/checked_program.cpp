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

/// Returns `expression` as text for messages: symbols and integers become plain names and numbers,
/// as in "Add(s0, 2)". Returns "at all sizes" if `expression` is empty, that is, if the size is an
/// integer.
std::string readable(const std::string& expression) {
  if (expression.empty()) return "at all sizes";
  static const std::regex kAtom("(?:Symbol|Integer)\\('?([\\w-]+)[^)]*\\)");
  return std::regex_replace(expression, kAtom, "$1");
}

}  // namespace

CheckedProgram::CheckedProgram(const ExportedProgram& program,
                               const std::map<std::string, torch::Tensor>& weights,
                               torch::Device device)
    : program_(program), runner_(program, weights, device, {.namespaces = {"aten"}}) {}

std::vector<torch::Tensor> CheckedProgram::run(const std::vector<torch::Tensor>& inputs) const {
  auto symbols = symbols_of(program_, inputs);
  const auto check = [&](const std::string& what, int64_t found, const Size& size) {
    const auto symbol = symbol_in(size.expression);
    if (!symbol.empty() && is_unbacked(size.expression)) symbols.try_emplace(symbol, found);
    const auto expected = evaluate(size, symbols);
    if (found == expected) return;
    throw std::runtime_error(fmt::format("{} is {}, expected {} ({})", what, found, expected,
                                         readable(size.expression)));
  };
  return runner_.run(inputs, [&](const std::string& name, const c10::IValue& value) {
    if (value.isInt()) {
      check(fmt::format("the traced SymInt '{}'", name), value.toInt(), program_.sym_ints.at(name));
      return;
    }
    if (!value.isTensor()) return;
    const auto& tensor = value.toTensor();
    const auto& sizes = program_.tensors.at(name).sizes;
    if (static_cast<std::size_t>(tensor.dim()) != sizes.size()) {
      throw std::runtime_error(fmt::format("the traced tensor '{}' has {} dimensions, expected {}",
                                           name, tensor.dim(), sizes.size()));
    }
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (is_unknown(sizes[d])) continue;
      check(fmt::format("the size of dimension {} of the traced tensor '{}'", d, name),
            tensor.size(static_cast<int64_t>(d)), sizes[d]);
    }
  });
}

}  // namespace attend::program
