#include "export/pt2/input_checks.h"

#include "attend/input_error.h"
#include "export/pt2/codes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string_view>

namespace attend::pt2 {
namespace {

/// Whether it is nothing but a symbol; then its name.
std::optional<std::string> symbol_of(const std::string& expression) {
  constexpr std::string_view kBegin = "Symbol('";
  if (!expression.starts_with(kBegin) || !expression.ends_with(")")) return std::nullopt;
  const auto end = expression.find('\'', kBegin.size());
  if (end == std::string::npos || expression.find(')') != expression.size() - 1)
    return std::nullopt;
  return expression.substr(kBegin.size(), end - kBegin.size());
}

template <typename Wanted, typename Found>
[[noreturn]] void fail(const std::string& name, const std::string& what, const Wanted& wanted,
                       const Found& found) {
  throw InputError(fmt::format("input '{}': expected {}{}, found {}", name, what, wanted, found));
}

}  // namespace

InputChecks::InputChecks(const Program& program, torch::Device device) : device_(device) {
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::user) continue;
    const auto found = program.tensors.find(input.name);
    if (found == program.tensors.end()) {
      throw InputError(fmt::format("nothing is said of the input '{}'", input.name));
    }
    const auto& meta = found->second;
    Expected expected{.dtype = dtype_of(meta.dtype), .dimensions = {}};
    for (const auto& size : meta.sizes) {
      auto& dimension = expected.dimensions.emplace_back();
      if (size.expression.empty()) dimension.fixed = size.value;
      dimension.symbol = symbol_of(size.expression);
      if (!dimension.symbol) continue;
      const auto range = program.ranges.find(*dimension.symbol);
      if (range != program.ranges.end()) dimension.range = range->second;
    }
    names_.push_back(input.name);
    expected_.push_back(std::move(expected));
  }
}

std::vector<std::string> InputChecks::signatures() const {
  const auto bound = [](const std::optional<int64_t>& number) {
    return number ? std::to_string(*number) : std::string();
  };
  std::vector<std::string> signatures;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    std::vector<std::string> sizes;
    for (const auto& [fixed, symbol, range] : expected_[i].dimensions) {
      if (fixed) {
        sizes.push_back(std::to_string(*fixed));
      } else if (symbol) {
        sizes.push_back(
            fmt::format("{} = {}..{}", *symbol, bound(range.least), bound(range.greatest)));
      } else {
        sizes.emplace_back("?");
      }
    }
    signatures.push_back(fmt::format("{}: {} ({})", names_[i],
                                     c10::getDtypeNames(expected_[i].dtype).first,
                                     fmt::join(sizes, ", ")));
  }
  return signatures;
}

void InputChecks::check(const std::vector<torch::Tensor>& inputs) const {
  if (inputs.size() != names_.size()) {
    throw InputError(fmt::format("expected {} inputs ({}), found {}", names_.size(),
                                 fmt::join(names_, ", "), inputs.size()));
  }
  std::map<std::string, int64_t> symbols;  // what they are in these inputs
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& name = names_[i];
    const auto& input = inputs[i];
    const auto& [dtype, dimensions] = expected_[i];
    if (!input.defined()) fail(name, "a tensor", "", "none");
    if (input.scalar_type() != dtype) {
      fail(name, "dtype ", c10::toString(dtype), c10::toString(input.scalar_type()));
    }
    if (input.device() != device_) fail(name, "device ", device_.str(), input.device().str());
    if (input.dim() != static_cast<int64_t>(dimensions.size())) {
      fail(name, "a number of dimensions of ", dimensions.size(), input.dim());
    }
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      const auto& [fixed, symbol, range] = dimensions[d];
      const auto found = input.size(static_cast<int64_t>(d));
      const auto what = fmt::format("dimension {} to be ", d);
      if (fixed && found != *fixed) fail(name, what, *fixed, found);
      if (!symbol) continue;
      const auto [bound, is_first] = symbols.emplace(*symbol, found);
      if (!is_first && bound->second != found) fail(name, what, bound->second, found);
      if (range.least && found < *range.least) fail(name, what + "at least ", *range.least, found);
      if (range.greatest && found > *range.greatest) {
        fail(name, what + "at most ", *range.greatest, found);
      }
    }
  }
}

}  // namespace attend::pt2
