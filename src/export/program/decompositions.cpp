#include "export/program/decompositions.h"

#include "export/program/node_arguments.h"
#include "export/program/sym_int_nodes.h"
#include "program/schema_enums.h"
#include "program/target.h"

#include <c10/core/ScalarType.h>
#include <c10/core/WrapDimMinimal.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace attend::program {
namespace {

using Ints = std::vector<ValueOrSymbol<int64_t>>;

/// A diagonal: the elements in row i and column i + offset.
struct Diagonal {
  int64_t offset;
  int64_t rows;     // index of the dimension
  int64_t columns;  // index of the dimension
};

class Decomposer {
 public:
  explicit Decomposer(ExportedProgram& program) : program_(program) {}

  bool run() && {
    bool any = false;
    for (auto& node : program_.nodes) {
      const auto begin = nodes_.size();
      if (decompose(node)) {
        any = true;
        for (auto i = begin; i < nodes_.size(); ++i) nodes_[i].stack_trace = node.stack_trace;
      } else {
        nodes_.push_back(std::move(node));
      }
    }
    program_.nodes = std::move(nodes_);
    return any;
  }

 private:
  /// Adds the nodes that replace a node. Returns false if the node is not replaced.
  bool decompose(const Node& node) {
    if (has_symbols(node)) return false;
    const auto key = key_of(node.target);
    const std::string_view name = std::string_view(key).substr(0, key.find('.'));
    if (name == "tensor_split") return split(node, required_argument<int64_t>(node, "dim"));
    if (name == "hsplit") return split(node, rank_of_self(node) == 1 ? 0 : 1);
    if (name == "vsplit") return split(node, 0);
    if (name == "dsplit") return split(node, 2);
    if (key == "diagonal.default") return diagonal(node);
    if (key == "diagonal_scatter.default") return diagonal_scatter(node);
    if (key == "diag.default") return diagonal_of_matrix(node, "clone.default");
    if (key == "trace.default") return diagonal_of_matrix(node, "sum.default");
    if (key == "take_along_dim.default") return take_along(node);
    if (key == "unbind.int") return unbind(node);
    if (key == "max_pool1d.default") return max_pool1d(node);
    if (key.starts_with("adaptive_avg_pool") || key.starts_with("adaptive_max_pool")) {
      return adaptive_pool(node, key.starts_with("adaptive_avg_pool"));
    }
    return false;
  }

  /// Replaces tensor_split, hsplit, vsplit or dsplit by slices.
  bool split(const Node& node, int64_t dim) {
    const auto& self = required_argument<TensorName>(node, "self");
    const auto dimension = index_of(self, dim);
    if (find_argument<TensorName>(node, "tensor_indices_or_sections") != nullptr) return false;
    if (!is_dynamic(self, dimension)) return false;
    const auto& parts = std::get<std::vector<TensorName>>(node.outputs.front());
    const auto ends = find_argument<Ints>(node, "indices") != nullptr
                          ? given_ends(node)
                          : equal_ends(self, dimension, static_cast<int64_t>(parts.size()));
    Argument begin = int64_t{0};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      add_slice(self, dimension, begin, ends[i], parts[i]);
      begin = ends[i];
    }
    return true;
  }

  static std::vector<Argument> given_ends(const Node& node) {
    std::vector<Argument> ends;
    for (const auto& index : required_argument<Ints>(node, "indices")) {
      ends.push_back(std::get<int64_t>(index));
    }
    ends.push_back(kEnd);
    return ends;
  }

  /// Returns the ends of the `count` parts into which tensor_split splits a dimension. The first
  /// parts may have one more element than the other parts.
  std::vector<Argument> equal_ends(const TensorName& self, int64_t dimension, int64_t count) {
    const auto size = sym_ints_.size_of(self, dimension, size_of(self, dimension));
    std::vector<Argument> ends;
    std::optional<SymbolName> end;
    for (int64_t i = 0; i + 1 < count; ++i) {
      const auto part = sym_ints_.quotient(sym_ints_.sum(size, count - 1 - i), count);
      end = end ? sym_ints_.sum(*end, part) : part;
      ends.emplace_back(*end);
    }
    ends.emplace_back(kEnd);
    return ends;
  }

  /// Replaces `diagonal` of a matrix by `diagonal` of a square slice of the matrix. Returns false
  /// if the matrix has no dynamic size (see `is_dynamic`) or is always square.
  bool diagonal(const Node& node) {
    const auto& self = required_argument<TensorName>(node, "self");
    const auto diagonal = diagonal_in(node, self);
    if (!may_be_rectangular(self, diagonal)) return false;
    add_diagonal(self, diagonal, std::get<TensorName>(node.outputs.front()));
    return true;
  }

  /// Replaces diagonal_scatter by an in-place write to the diagonal of a copy.
  bool diagonal_scatter(const Node& node) {
    const auto& self = required_argument<TensorName>(node, "self");
    const auto diagonal = diagonal_in(node, self);
    if (!may_be_rectangular(self, diagonal)) return false;
    const auto copy = std::get<TensorName>(node.outputs.front());
    add("clone.default", {{"self", self}}, copy);
    const auto view = add_diagonal(copy, diagonal, new_tensor("diagonal"));
    add("copy_.default", {{"self", view}, {"src", required_argument<TensorName>(node, "src")}},
        new_tensor("copy_"));
    return true;
  }

  /// Replaces `diag` or `trace` of a matrix by `diagonal`, followed by the operator `key`.
  bool diagonal_of_matrix(const Node& node, const char* key) {
    const auto& self = required_argument<TensorName>(node, "self");
    const auto* offset = find_argument<int64_t>(node, "diagonal");
    const Diagonal diagonal{.offset = offset == nullptr ? 0 : *offset, .rows = 0, .columns = 1};
    if (rank_of(self) != 2 || !may_be_rectangular(self, diagonal)) return false;
    add(key, {{"self", add_diagonal(self, diagonal, new_tensor("diagonal"))}},
        node.outputs.front());
    return true;
  }

  Diagonal diagonal_in(const Node& node, const TensorName& self) const {
    return {.offset = required_argument<int64_t>(node, "offset"),
            .rows = index_of(self, required_argument<int64_t>(node, "dim1")),
            .columns = index_of(self, required_argument<int64_t>(node, "dim2"))};
  }

  bool may_be_rectangular(const TensorName& self, const Diagonal& diagonal) const {
    const auto& rows = size_of(self, diagonal.rows);
    const auto& columns = size_of(self, diagonal.columns);
    return (is_dynamic(self, diagonal.rows) || is_dynamic(self, diagonal.columns)) &&
           rows.expression != columns.expression;
  }

  TensorName add_diagonal(const TensorName& self, const Diagonal& diagonal,
                          const TensorName& output) {
    const auto& [offset, rows, columns] = diagonal;
    const auto row = std::max<int64_t>(-offset, 0);  // of the diagonal's first element
    const auto column = std::max<int64_t>(offset, 0);
    // Number of rows or columns from `first` to the end of the dimension.
    const auto remaining = [&](int64_t dimension, int64_t first) -> Argument {
      const auto& size = size_of(self, dimension);
      if (size.expression.empty()) return size.value - first;
      const auto symbol = sym_ints_.size_of(self, dimension, size);
      return first == 0 ? symbol : sym_ints_.sum(symbol, -first);
    };
    auto one = remaining(rows, row);
    auto other = remaining(columns, column);
    if (!std::holds_alternative<SymbolName>(one)) std::swap(one, other);
    auto length = sym_ints_.min(std::get<SymbolName>(one), other);
    if (offset != 0) length = sym_ints_.max(length, int64_t{0});
    const auto end = [&](int64_t first) {
      return first == 0 ? length : sym_ints_.sum(length, first);
    };
    const auto slice = add_slice(self, rows, row, end(row), new_tensor("slice"));
    const auto square = add_slice(slice, columns, column, end(column), new_tensor("slice"));
    add("diagonal.default",
        {{"self", square}, {"offset", int64_t{0}}, {"dim1", rows}, {"dim2", columns}}, output);
    return output;
  }

  /// Replaces take_along_dim by gather if self and the indices are not broadcast.
  bool take_along(const Node& node) {
    const auto& self = required_argument<TensorName>(node, "self");
    const auto& indices = required_argument<TensorName>(node, "indices");
    const auto* dim = find_argument<int64_t>(node, "dim");
    if (dim == nullptr || !any_dynamic(self) || rank_of(self) != rank_of(indices)) return false;
    const auto gathered = index_of(self, *dim);
    for (int64_t dimension = 0; dimension < rank_of(self); ++dimension) {
      const auto& size = size_of(self, dimension);
      const auto& other = size_of(indices, dimension);
      const bool is_same = size.expression == other.expression && size.value == other.value;
      if (dimension != gathered && !is_same) return false;
    }
    add("gather.default", {{"self", self}, {"dim", gathered}, {"index", indices}},
        node.outputs.front());
    return true;
  }

  /// Replaces unbind by select. Both return views, which the program may mutate.
  bool unbind(const Node& node) {
    const auto& self = required_argument<TensorName>(node, "self");
    if (!any_dynamic(self)) return false;
    int64_t index = 0;
    for (const auto& part : std::get<std::vector<TensorName>>(node.outputs.front())) {
      add("select.int",
          {{"self", self}, {"dim", required_argument<int64_t>(node, "dim")}, {"index", index++}},
          part);
    }
    return true;
  }

  /// Replaces max_pool1d by max_pool2d of images with one row.
  bool max_pool1d(const Node& node) {
    const auto& self = required_argument<TensorName>(node, "self");
    if (!is_dynamic(self, rank_of(self) - 1)) return false;
    const auto with_row = [&](const char* name, int64_t row) {
      auto values = required_argument<Ints>(node, name);
      if (!values.empty()) values.insert(values.begin(), row);
      return NamedArgument{name, values};
    };
    const TensorName images = new_tensor("unsqueeze");
    const TensorName pooled = new_tensor("max_pool2d");
    const int64_t row_dimension = rank_of(self) - 1;
    add("unsqueeze.default", {{"self", self}, {"dim", row_dimension}}, images);
    add("max_pool2d.default",
        {{"self", images},
         with_row("kernel_size", 1),
         with_row("stride", 1),
         with_row("padding", 0),
         with_row("dilation", 1),
         {"ceil_mode", required_argument<bool>(node, "ceil_mode")}},
        pooled);
    add("squeeze.dim", {{"self", pooled}, {"dim", row_dimension}}, node.outputs.front());
    return true;
  }

  /// Replaces adaptive pooling by the mean or the maximum of slices, one dimension at a time.
  bool adaptive_pool(const Node& node, bool is_mean) {
    const auto& self = required_argument<TensorName>(node, "self");
    const auto& sizes = required_argument<Ints>(node, "output_size");
    const auto first = rank_of(self) - static_cast<int64_t>(sizes.size());
    bool any_dynamic = false;
    for (auto dimension = first; dimension < rank_of(self); ++dimension) {
      const auto size = std::get<int64_t>(sizes[static_cast<std::size_t>(dimension - first)]);
      if (size == 0) return false;  // there are no slices to concatenate
      any_dynamic = any_dynamic || (is_dynamic(self, dimension) && size > 1);
    }
    // Max pooling is not replaced if its second output, the indices of the maxima, is used.
    if (!any_dynamic || (!is_mean && is_used(node.outputs.at(1)))) return false;
    if (!is_mean) program_.tensors.erase(std::get<TensorName>(node.outputs.at(1)).name);
    const auto dtype = program_.tensors.at(self.name).dtype;
    const auto real = schema_enum(c10::ScalarType::Float);
    const bool is_half = dtype == schema_enum(c10::ScalarType::Half) ||
                         dtype == schema_enum(c10::ScalarType::BFloat16);
    auto pooled = is_half ? cast(self, real, new_tensor("to")) : self;
    for (auto dimension = first; dimension < rank_of(self); ++dimension) {
      const auto size = std::get<int64_t>(sizes[static_cast<std::size_t>(dimension - first)]);
      pooled = pool(pooled, self, dimension, size, is_mean);
    }
    cast(pooled, dtype, std::get<TensorName>(node.outputs.front()));
    return true;
  }

  /// Pools dimension `dimension` of `x` to `count` elements. This dimension has the same size in
  /// `x` as in `self`. Element i is the mean or the maximum of a slice. The slice begins at
  /// floor(i * size / count) and ends at ceil((i + 1) * size / count).
  TensorName pool(const TensorName& x, const TensorName& self, int64_t dimension, int64_t count,
                  bool is_mean) {
    const auto& size = size_of(self, dimension);
    std::optional<SymbolName> symbol;
    if (!size.expression.empty()) symbol = sym_ints_.size_of(x, dimension, size);
    const auto quotient = [&](int64_t factor, int64_t added) -> Argument {
      if (!symbol) return (factor * size.value + added) / count;
      const auto product = sym_ints_.product(*symbol, factor);
      return sym_ints_.quotient(added == 0 ? product : sym_ints_.sum(product, added), count);
    };
    std::vector<TensorName> windows;
    for (int64_t i = 0; i < count; ++i) {
      const Argument begin = i == 0 ? int64_t{0} : quotient(i, 0);
      const Argument end = i + 1 == count ? kEnd : quotient(i + 1, count - 1);
      const auto window = add_slice(x, dimension, begin, end, new_tensor("slice"));
      const auto reduced = new_tensor(is_mean ? "mean" : "amax");
      add(is_mean ? "mean.dim" : "amax.default",
          {{"self", window}, {"dim", Ints{dimension}}, {"keepdim", true}}, reduced);
      windows.push_back(reduced);
    }
    const auto pooled = new_tensor("cat");
    add("cat.default", {{"tensors", windows}, {"dim", dimension}}, pooled);
    return pooled;
  }

  TensorName cast(const TensorName& x, int64_t dtype, const TensorName& output) {
    add("to.dtype", {{"self", x}, {"dtype", SchemaDtype{dtype}}}, output);
    return output;
  }

  TensorName add_slice(const TensorName& x, int64_t dimension, const Argument& begin,
                       const Argument& end, const TensorName& output) {
    add("slice.Tensor",
        {{"self", x}, {"dim", dimension}, {"start", begin}, {"end", end}, {"step", int64_t{1}}},
        output);
    return output;
  }

  void add(const char* key, std::vector<NamedArgument> inputs, const Argument& output) {
    nodes_.push_back({.target = fmt::format("torch.ops.aten.{}", key),
                      .inputs = std::move(inputs),
                      .outputs = {output}});
  }

  TensorName new_tensor(const std::string& base) {
    const auto name = unique_name(program_, base);
    program_.tensors[name] = {};
    return {name};
  }

  bool is_used(const Argument& output) const {
    const auto names = names_in(output);
    const auto is_among = [&](const Argument& argument) {
      const auto others = names_in(argument);
      return std::find_first_of(names.begin(), names.end(), others.begin(), others.end()) !=
             names.end();
    };
    return std::any_of(program_.outputs.begin(), program_.outputs.end(),
                       [&](const Output& output) { return is_among(output.value); }) ||
           std::any_of(program_.nodes.begin(), program_.nodes.end(), [&](const Node& node) {
             return std::any_of(node.inputs.begin(), node.inputs.end(),
                                [&](const auto& input) { return is_among(input.value); });
           });
  }

  int64_t rank_of_self(const Node& node) const {
    return rank_of(required_argument<TensorName>(node, "self"));
  }
  int64_t rank_of(const TensorName& tensor) const {
    return static_cast<int64_t>(program_.tensors.at(tensor.name).sizes.size());
  }
  int64_t index_of(const TensorName& tensor, int64_t dimension) const {
    return c10::maybe_wrap_dim(dimension, rank_of(tensor));
  }
  const Size& size_of(const TensorName& tensor, int64_t dimension) const {
    return program_.tensors.at(tensor.name).sizes.at(static_cast<std::size_t>(dimension));
  }
  /// Returns true if a size is an expression without unbacked symbols.
  bool is_dynamic(const TensorName& tensor, int64_t dimension) const {
    const auto& expression = size_of(tensor, dimension).expression;
    return !expression.empty() && !expression.contains(Expression::Kind::unbacked);
  }

  bool any_dynamic(const TensorName& tensor) const {
    for (int64_t dimension = 0; dimension < rank_of(tensor); ++dimension) {
      if (is_dynamic(tensor, dimension)) return true;
    }
    return false;
  }

  ExportedProgram& program_;
  std::vector<Node> nodes_;
  SymIntNodes sym_ints_{program_, nodes_};
};

}  // namespace

bool decompose(ExportedProgram& program) {
  return Decomposer(program).run();
}

}  // namespace attend::program
