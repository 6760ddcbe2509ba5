#include "export/program/shape_functions.h"

#include "export/program/node_arguments.h"
#include "program/target.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace attend::program {
namespace {

using Ints = std::vector<ValueOrSymbol<int64_t>>;

/// Arguments of a convolution, a pooling operator or `unfold` for one dimension.
struct Window {
  Size kernel;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  bool ceil_mode = false;
};

/// Returns the number of windows in a dimension. A window extends over `extent` elements. Without
/// ceil_mode, the number is 1 + floor((size + 2 * padding - extent) / stride).
Size num_windows(const Size& size, const Window& window) {
  const auto& [kernel, stride, padding, dilation, ceil_mode] = window;
  const auto extent = kernel * Size{dilation} + Size{1 - dilation};
  auto added = Size{2 * padding + stride} - extent;
  // With ceil_mode, the quotient is rounded up, but the last window must not begin in the padding
  // after the input.
  if (ceil_mode) added = Size{std::min(added.value, padding) + stride - 1};
  return floor_div(size + added, stride);
}

class ShapeFunction {
 public:
  ShapeFunction(const Node& node, const ExportedProgram& program)
      : node_(node), program_(program) {}

  ShapeFunctionResult run() && {
    const auto key = key_of(node_.target);
    const std::string_view name = std::string_view(key).substr(0, key.find('.'));
    if (key == "slice.Tensor") slice();
    if (has_symbols(node_)) return std::move(sizes_);
    if (key == "unfold.default") unfold();
    if (key == "tensor_split.sections") tensor_split();
    if (key == "chunk.default") chunk();
    if (name == "conv1d" || name == "conv2d" || name == "conv3d" || name == "_convolution") {
      convolution();
    }
    if (name.starts_with("max_pool") || name.starts_with("avg_pool")) pooling();
    return std::move(sizes_);
  }

 private:
  /// `start` and `end` are first clamped to the dimension. The size of the slice is then
  /// max(0, end - start) / step, rounded up.
  void slice() {
    const auto& self = sizes_of("self");
    const auto dimension = dim(self, "dim");
    const auto& size = self.at(dimension);
    const auto step = required_argument<int64_t>(node_, "step");
    const auto start = number("start");
    const auto end = number("end");
    std::optional<Size> length;
    if (!start || !end) {  // Usually, SymInts are within the dimension.
      length = bound("end", size) - bound("start", size);
    } else if (*start >= 0) {
      const auto last = *end >= 0 ? at_most(size, *end) : size + Size{*end};
      length = at_least_0(last - Size{*start});
    } else if (*end == kEnd) {
      length = at_most(size, -*start);
    } else if (*end < 0) {
      length = at_most(at_least_0(size + Size{*end}), std::max<int64_t>(*end - *start, 0));
    } else {
      length = at_least_0(at_most(size, *end) - at_least_0(size + Size{*start}));
    }
    if (step > 1) length = floor_div(*length + Size{step - 1}, step);
    add(node_.outputs.front(), dimension, *length);
  }

  void unfold() {
    const auto& self = sizes_of("self");
    const auto dimension = dim(self, "dimension");
    add(node_.outputs.front(), dimension,
        num_windows(self.at(dimension), {.kernel = {required_argument<int64_t>(node_, "size")},
                                         .stride = required_argument<int64_t>(node_, "step")}));
  }

  /// The first `size % count` parts have one more element than the others.
  void tensor_split() {
    const auto& self = sizes_of("self");
    const auto dimension = dim(self, "dim");
    const auto parts = names_in(node_.outputs.front());
    const auto count = static_cast<int64_t>(parts.size());
    for (int64_t i = 0; i < count; ++i) {
      add(TensorName{parts[static_cast<std::size_t>(i)]}, dimension,
          floor_div(self.at(dimension) + Size{count - 1 - i}, count));
    }
  }

  /// All parts but the last have ceil(size / chunks) elements.
  void chunk() {
    const auto& self = sizes_of("self");
    const auto dimension = dim(self, "dim");
    const auto& size = self.at(dimension);
    const auto chunks = required_argument<int64_t>(node_, "chunks");
    const auto part = floor_div(size + Size{chunks - 1}, chunks);
    const auto parts = names_in(node_.outputs.front());
    const auto last = static_cast<int64_t>(parts.size()) - 1;
    for (const auto& name : parts) {
      const auto rest = chunks == 2 ? floor_div(size, 2) : size - part * Size{last};
      add(TensorName{name}, dimension, name == parts.back() && last > 0 ? rest : part);
    }
  }

  void convolution() {
    if (const auto* transposed = find_argument<bool>(node_, "transposed")) {
      if (*transposed) return;  // linear sizes: left to SymbolicShapes
    }
    const auto& self = sizes_of("input");
    const auto& weight = sizes_of("weight");  // (output channels, channels / groups, ...)
    if (find_argument<Ints>(node_, "padding") == nullptr) return;  // "same" or "valid"
    const auto first = self.size() + 2 - weight.size();
    for (auto dimension = first; dimension < self.size(); ++dimension) {
      add_windows(dimension, self.at(dimension),
                  window(dimension - first, weight.at(dimension - first + 2)));
    }
  }

  void pooling() {
    const auto& self = sizes_of("self");
    const auto rank =
        static_cast<std::size_t>(key_of(node_.target)[std::string_view("max_pool").size()] - '0');
    const auto first = self.size() - rank;
    for (auto dimension = first; dimension < self.size(); ++dimension) {
      add_windows(dimension, self.at(dimension),
                  window(dimension - first, {entry("kernel_size", dimension - first, 0)}));
    }
  }

  Window window(std::size_t index, const Size& kernel) const {
    const auto* ceil_mode = find_argument<bool>(node_, "ceil_mode");
    return {.kernel = kernel,
            .stride = entry("stride", index, kernel.value),
            .padding = entry("padding", index, 0),
            .dilation = entry("dilation", index, 1),
            .ceil_mode = ceil_mode != nullptr && *ceil_mode};
  }

  void add_windows(std::size_t dimension, const Size& size, const Window& window) {
    for (const auto& output : node_.outputs) {
      add(output, dimension, num_windows(size, window));
    }
  }

  Size at_most(const Size& size, int64_t number) const {
    const auto [smallest, largest] = bounds_of(size, program_.ranges);
    return largest <= number ? size : smallest >= number ? Size{number} : min(size, {number});
  }

  Size at_least_0(const Size& size) const {
    return bounds_of(size, program_.ranges).first >= 0 ? size : max(size, {0});
  }

  /// Adds a size to the result if the expression of the size contains FloorDiv, Min or Max. Omits
  /// expressions with more than kMaxNodes nodes.
  void add(const Argument& output, std::size_t dimension, const Size& size) {
    using Kind = Expression::Kind;
    constexpr std::size_t kMaxNodes = 100;  // an operator may repeat its input's expression
    const auto& expression = size.expression;
    if (expression.empty() || expression.num_nodes() > kMaxNodes) return;
    const auto functions = {Kind::floor_div, Kind::min, Kind::max};
    if (std::none_of(functions.begin(), functions.end(),
                     [&](Kind kind) { return expression.contains(kind); })) {
      return;
    }
    sizes_[{std::get<TensorName>(output).name, dimension}] = size;
  }

  const std::vector<Size>& sizes_of(std::string_view argument) const {
    return program_.tensors.at(required_argument<TensorName>(node_, argument).name).sizes;
  }

  std::size_t dim(const std::vector<Size>& sizes, std::string_view argument) const {
    return static_cast<std::size_t>(c10::maybe_wrap_dim(required_argument<int64_t>(node_, argument),
                                                        static_cast<int64_t>(sizes.size())));
  }

  /// Returns element `index` of the list that is given for `argument`. If the list has only one
  /// element, returns this element for every index. Returns `otherwise` if the node does not have
  /// the argument or the list is empty.
  int64_t entry(std::string_view argument, std::size_t index, int64_t otherwise) const {
    const auto* list = find_argument<Ints>(node_, argument);
    if (list == nullptr || list->empty()) return otherwise;
    return std::get<int64_t>(list->at(list->size() == 1 ? 0 : index));
  }

  /// Returns the argument `start` or `end` of a slice, or nullopt if the argument is a SymInt. If
  /// the argument is not given, returns its default: 0 for `start`, kEnd for `end`.
  std::optional<int64_t> number(std::string_view argument) const {
    if (find_argument<SymbolName>(node_, argument) != nullptr) return std::nullopt;
    const auto* given = find_argument<int64_t>(node_, argument);
    if (given == nullptr) return argument == "end" ? kEnd : 0;
    return std::max(*given, -kEnd);  // so that the number can be negated
  }

  Size bound(std::string_view argument, const Size& size) const {
    if (const auto* name = find_argument<SymbolName>(node_, argument)) {
      return program_.sym_ints.at(name->name);
    }
    const auto given = *number(argument);
    return given == kEnd ? size : Size{given};
  }

  const Node& node_;
  const ExportedProgram& program_;
  ShapeFunctionResult sizes_;
};

}  // namespace

ShapeFunctionResult shape_function(const Node& node, const ExportedProgram& program) {
  try {
    return ShapeFunction(node, program).run();
  } catch (const std::overflow_error&) {  // an argument such as an end of -2^63 + 1
    return {};
  }
}

}  // namespace attend::program
