#include "program/input_checks.h"

#include "attend/input_error.h"
#include "program/schema_enums.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string_view>

namespace attend::program {
namespace {

template <typename Wanted, typename Found>
[[noreturn]] void fail(const std::string& name, const std::string& what, const Wanted& wanted,
                       const Found& found) {
  throw InputError(fmt::format("input '{}': expected {}{}, found {}", name, what, wanted, found));
}

}  // namespace

InputChecks::InputChecks(const ExportedProgram& program, torch::Device device) : device_(device) {
  const auto known = [](const auto& all, const std::string& name) {
    const auto found = all.find(name);
    if (found == all.end()) {
      throw InputError(fmt::format("input '{}' has no metadata", name));
    }
    return found->second;
  };
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::user) continue;
    auto& expected = inputs_.emplace_back(ExpectedInput{input.name, torch::kLong, {}, {}});
    if (input.is_sym_int) {
      expected.number = expected_of(known(program.sym_ints, input.name), program);
      continue;
    }
    const auto meta = known(program.tensors, input.name);
    expected.dtype = dtype_of(meta.dtype);
    for (const auto& size : meta.sizes) expected.dimensions.push_back(expected_of(size, program));
  }
}

InputChecks::Expected InputChecks::expected_of(const Size& size, const ExportedProgram& program) {
  if (size.expression.empty()) return {.fixed = size.value, .symbol = {}, .range = {}};
  const auto symbol = symbol_in(size);
  if (symbol.empty()) return {};
  Expected expected{.fixed = {}, .symbol = symbol, .range = {}};
  const auto range = program.ranges.find(symbol);
  if (range != program.ranges.end()) expected.range = range->second;
  return expected;
}

std::vector<std::string> InputChecks::names() const {
  std::vector<std::string> names;
  for (const auto& input : inputs_) names.push_back(input.name);
  return names;
}

std::string InputChecks::text_of(const Expected& expected) {
  const auto bound = [](const std::optional<int64_t>& number) {
    return number ? std::to_string(*number) : std::string();
  };
  if (expected.fixed) return std::to_string(*expected.fixed);
  if (!expected.symbol) return "?";
  const auto& [min, max] = expected.range;
  return fmt::format("{} = {}..{}", *expected.symbol, bound(min), bound(max));
}

std::vector<std::string> InputChecks::signatures() const {
  std::vector<std::string> signatures;
  for (const auto& input : inputs_) {
    if (input.number) {
      signatures.push_back(fmt::format("{}: number {}", input.name, text_of(*input.number)));
      continue;
    }
    std::vector<std::string> sizes;
    for (const auto& dimension : input.dimensions) sizes.push_back(text_of(dimension));
    signatures.push_back(fmt::format(
        "{}: {} ({})", input.name, c10::getDtypeNames(input.dtype).first, fmt::join(sizes, ", ")));
  }
  return signatures;
}

void InputChecks::check(const std::vector<torch::Tensor>& inputs) const {
  if (inputs.size() != inputs_.size()) {
    throw InputError(fmt::format("expected {} inputs ({}), found {}", inputs_.size(),
                                 fmt::join(names(), ", "), inputs.size()));
  }
  std::map<std::string, int64_t> symbols;  // value of each symbol in `inputs`
  const auto check_number = [&](const std::string& name, int64_t found, const Expected& expected,
                                std::optional<std::size_t> dimension) {
    const auto check = [&](bool is_valid, const char* relation, int64_t wanted) {
      if (is_valid) return;
      const auto what = dimension ? fmt::format("size of dimension {}", *dimension) : "the number";
      fail(name, fmt::format("{} to be {}", what, relation), wanted, found);
    };
    const auto& [fixed, symbol, range] = expected;
    if (fixed) check(found == *fixed, "", *fixed);
    if (!symbol) return;
    const auto& first = symbols.emplace(*symbol, found).first->second;
    check(found == first, "", first);
    if (range.min) check(found >= *range.min, "at least ", *range.min);
    if (range.max) check(found <= *range.max, "at most ", *range.max);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& input = inputs[i];
    const auto& [name, dtype, dimensions, number] = inputs_[i];
    if (!input.defined()) fail(name, "a tensor", "", "an undefined tensor");
    if (input.scalar_type() != dtype) {
      fail(name, "dtype ", c10::toString(dtype), c10::toString(input.scalar_type()));
    }
    if (input.dim() != static_cast<int64_t>(dimensions.size())) {
      fail(name, "number of dimensions ", dimensions.size(), input.dim());
    }
    if (number) {
      check_number(name, input.item<int64_t>(), *number, std::nullopt);
      continue;
    }
    if (input.device() != device_) fail(name, "device ", device_.str(), input.device().str());
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      check_number(name, input.size(static_cast<int64_t>(d)), dimensions[d], d);
    }
  }
}

}  // namespace attend::program
