#include "export/program/checked_program.h"

#include "program/allowed_operators.h"

#include <fmt/format.h>

#include <map>
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
      const auto symbol = symbol_in(sizes[d]);
      if (!symbol.empty()) symbols[symbol] = tensor.size(static_cast<int64_t>(d));
    }
  }
  return symbols;
}

}  // namespace

CheckedProgram::CheckedProgram(const ExportedProgram& program,
                               const std::map<std::string, torch::Tensor>& weights,
                               torch::Device device)
    : program_(program), runner_(program, weights, device, operators_called_by(program)) {}

std::vector<torch::Tensor> CheckedProgram::run(const std::vector<torch::Tensor>& inputs) const {
  auto symbols = symbols_of(program_, inputs);
  const auto check = [&](const std::string& what, int64_t found, const Size& size) {
    if (size.expression.is(Expression::Kind::unbacked)) {
      symbols.try_emplace(size.expression.text(), found);
    }
    const auto expected = evaluate(size, symbols);
    if (found == expected) return;
    const auto expression = size.expression.empty() ? "at all sizes" : text_of(size);
    throw std::runtime_error(
        fmt::format("{} is {}, expected {} ({})", what, found, expected, expression));
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
      check(fmt::format("the size of dimension {} of the traced tensor '{}'", d, name),
            tensor.size(static_cast<int64_t>(d)), sizes[d]);
    }
  });
}

}  // namespace attend::program
