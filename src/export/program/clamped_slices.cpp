#include "export/program/clamped_slices.h"

#include "export/program/node_arguments.h"
#include "export/program/sym_int_nodes.h"
#include "program/target.h"

#include <c10/core/WrapDimMinimal.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace attend::program {
namespace {

using Symbols = std::map<std::string, int64_t>;

Argument& input_of(Node& node, const std::string& name) {
  const auto found = std::find_if(node.inputs.begin(), node.inputs.end(),
                                  [&](const NamedArgument& input) { return input.name == name; });
  TORCH_INTERNAL_ASSERT(found != node.inputs.end(), node.target, " has no argument ", name);
  return found->value;
}

/// Clamps `argument`, the start or the end of a slice, to the range from 0 to `size`, the size of
/// the sliced dimension. Negative numbers are counted from the end of the dimension.
void clamp(Argument& argument, const SymbolName& size, SymIntNodes& nodes) {
  const auto* given = std::get_if<int64_t>(&argument);
  if (given == nullptr || *given == kEnd || *given == 0) return;
  const auto number = *given;
  if (number > 0) {
    argument = nodes.min(size, number);
    return;
  }
  argument = nodes.max(nodes.sum(size, number), int64_t{0});
}

/// Replaces the start and the end of a slice by clamped SymInts, if necessary. Adds to `nodes` the
/// nodes that compute these SymInts.
void clamp_slice(Node& slice, ExportedProgram& program, std::vector<Node>& nodes) {
  const auto& tensor = std::get<TensorName>(input_of(slice, "self"));
  const auto& sizes = program.tensors.at(tensor.name).sizes;
  const auto dimension = c10::maybe_wrap_dim(std::get<int64_t>(input_of(slice, "dim")),
                                             static_cast<int64_t>(sizes.size()));
  const auto& size = sizes.at(static_cast<std::size_t>(dimension));
  if (size.expression.empty()) return;
  const auto bounds = bounds_of(size, program.ranges);
  const auto smallest = std::max<int64_t>(bounds.first, 0);
  auto& start = input_of(slice, "start");
  auto& end = input_of(slice, "end");
  const auto* start_number = std::get_if<int64_t>(&start);
  const auto* end_number = std::get_if<int64_t>(&end);
  const auto is_outside = [&](const int64_t* number) {
    return number != nullptr && *number != kEnd && (*number > smallest || *number < -smallest);
  };
  // Returns true if the end of the slice is at or after the start at all sizes of the dimension.
  // Clamping does not change this.
  const auto is_in_order = [&] {
    if (start_number == nullptr || end_number == nullptr) return false;
    if (*end_number == kEnd) return true;
    if ((*start_number < 0) == (*end_number < 0)) return *start_number <= *end_number;
    return *start_number < 0 ? bounds.second <= *end_number - *start_number
                             : smallest >= *start_number - *end_number;
  };
  const bool in_order = is_in_order();
  const bool may_cross = start_number != nullptr && end_number != nullptr && !in_order;
  if (!is_outside(start_number) && !is_outside(end_number) && !may_cross) return;
  SymIntNodes sym_ints(program, nodes);
  const auto size_name = sym_ints.size_of(tensor, dimension, size);
  clamp(start, size_name, sym_ints);
  clamp(end, size_name, sym_ints);
  const auto* start_symbol = std::get_if<SymbolName>(&start);
  const auto* end_symbol = std::get_if<SymbolName>(&end);
  if (start_symbol != nullptr && end_symbol != nullptr && !in_order) {
    end = sym_ints.max(*end_symbol, *start_symbol);
  }
}

/// Returns how many sizes, starts and ends PyTorch would specialize if the symbols had the given
/// values. These are dynamic sizes of 0 or 1; clamped starts and ends that are 0 or equal to the
/// size of the sliced dimension; and ends that are raised to the start of their slice. Throws
/// std::overflow_error if a tensor has more than 2^31 elements.
int num_special(const ExportedProgram& program, const Symbols& symbols) {
  constexpr double kMaxElements = 0x1p31;
  int count = 0;
  for (const auto& [name, meta] : program.tensors) {
    double elements = 1;
    for (const auto& size : meta.sizes) {
      const auto value = evaluate(size, symbols);
      elements *= static_cast<double>(value);
      if (!size.expression.empty() && value < 2) ++count;
    }
    if (elements > kMaxElements) throw std::overflow_error("the tensor is too large");
  }
  const auto value_of = [&](const Argument& name) {
    return evaluate(program.sym_ints.at(std::get<SymbolName>(name).name), symbols);
  };
  for (const auto& node : program.nodes) {
    const bool is_min = node.target == "torch.sym_min";
    if (!is_min && node.target != "torch.sym_max") continue;
    const auto result = value_of(node.outputs.front());
    const auto size = value_of(node.inputs.front().value);
    const bool is_at_end = is_min && result == size;
    const bool is_at_begin = !is_min && (result != size || result == 0);
    if (is_at_begin || is_at_end) ++count;
  }
  return count;
}

template <typename Function>
void for_each_size(ExportedProgram& program, const Function& function) {
  for (auto& [name, meta] : program.tensors) {
    std::for_each(meta.sizes.begin(), meta.sizes.end(), function);
    std::for_each(meta.strides.begin(), meta.strides.end(), function);
    function(meta.storage_offset);
  }
  for (auto& [name, size] : program.sym_ints) function(size);
}

}  // namespace

void clamp_slices(ExportedProgram& program) {
  std::vector<Node> nodes;
  for (auto& node : program.nodes) {
    const auto key = key_of(node.target);
    if (key == "slice.Tensor" || key == "slice_scatter.default") clamp_slice(node, program, nodes);
    nodes.push_back(std::move(node));
  }
  program.nodes = std::move(nodes);
}

void set_hints(ExportedProgram& program) {
  Symbols symbols;
  for (const auto& input : program.inputs) {
    for (const auto& size : program.tensors.at(input.name).sizes) {
      const auto symbol = symbol_in(size);
      if (!symbol.empty()) symbols[symbol] = size.value;
    }
  }
  // Value assumed for unbacked symbols, which have no hint. All values except 0 and 1 are suitable.
  constexpr int64_t kUnbacked = 2;
  for (const auto& [symbol, range] : program.ranges) symbols.try_emplace(symbol, kUnbacked);
  auto best = symbols;
  auto fewest = std::numeric_limits<int>::max();
  // Tries `sizes`, then doubles or halves the sizes of the symbols in `changed`, up to kMaxSteps
  // times. Sets `best` to the sizes for which `num_special` returns the smallest number. Stops
  // early if this number is 0, or if a tensor would become too large.
  const auto search = [&](Symbols sizes, const std::vector<std::string>& changed, bool halve) {
    constexpr int kMaxSteps = 12;
    for (int i = 0; i <= kMaxSteps && fewest > 0; ++i) {
      try {
        const auto count = num_special(program, sizes);
        if (count < fewest) std::tie(fewest, best) = std::pair(count, sizes);
      } catch (const std::overflow_error&) {
        return;
      }
      for (const auto& symbol : changed) {
        const auto& range = program.ranges.at(symbol);
        auto& size = sizes.at(symbol);
        size = halve ? std::max(size / 2, range.min.value_or(1))
                     : std::min(2 * size, range.max.value_or(2 * size));
      }
    }
  };
  std::vector<std::string> all;
  for (const auto& [symbol, size] : symbols) all.push_back(symbol);
  search(symbols, all, /*halve=*/false);
  // If tensors become too large when all sizes are doubled, doubling a single size may still help.
  for (const auto& symbol : all) search(best, {symbol}, /*halve=*/false);
  // A slice such as x.slice(1, -100, 120) is empty if x.size(1) >= 220. An empty slice has a
  // special size, 0. Therefore smaller sizes are tried, too.
  for (const auto& symbol : all) search(best, {symbol}, /*halve=*/true);
  for_each_size(program, [&](Size& size) { size.value = evaluate(size, best); });
}

}  // namespace attend::program
