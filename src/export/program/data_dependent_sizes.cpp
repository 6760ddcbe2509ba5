#include "export/program/data_dependent_sizes.h"

#include "export/program/node_arguments.h"
#include "program/schema_enums.h"
#include "program/target.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace attend::program {
namespace {

/// Returns true for an operator such as aten.add_.Tensor, which mutates `self`.
bool is_in_place(const Node& node) {
  const auto name = parse_target(node.target).name;
  return name.ends_with('_') && !name.ends_with("__");
}

/// The value of `Rule::kind` for a size that equals the number of nonzero elements of a tensor,
/// such as a mask.
constexpr const char* kCount = "count";

/// Describes an operator whose outputs have a size that depends on the values of one argument.
struct Rule {
  const char* argument;
  /// Two operators have equal data-dependent sizes if their rules have the same kind and the same
  /// tensor is passed for the arguments that `argument` names.
  const char* kind = kCount;
  /// If true, the operator's argument `dim` is the index of the output dimension that has the
  /// data-dependent size. Otherwise, this index is 0.
  bool has_dim = false;
};

const std::map<std::string_view, Rule> kRules{
    {"masked_select.default", {.argument = "mask", .kind = "masked_select"}},
    {"nonzero.default", {.argument = "self"}},
    {"nonzero_numpy.default", {.argument = "self"}},
    {"argwhere.default", {.argument = "self"}},
    {"where.default", {.argument = "condition"}},
    {"bincount.default", {.argument = "self", .kind = "bincount"}},
    {"_unique.default", {.argument = "self", .kind = "unique"}},
    {"_unique2.default", {.argument = "self", .kind = "unique"}},
    {"unique_dim.default", {.argument = "self", .kind = "unique_dim", .has_dim = true}},
    {"unique_consecutive.default",
     {.argument = "self", .kind = "unique_consecutive", .has_dim = true}},
    {"unique_dim_consecutive.default",
     {.argument = "self", .kind = "unique_consecutive", .has_dim = true}},
    {"repeat_interleave.Tensor", {.argument = "repeats", .kind = "repeat_interleave"}},
    {"repeat_interleave.self_Tensor",
     {.argument = "repeats", .kind = "repeat_interleave", .has_dim = true}},
};

/// A dimension of an operator's outputs whose size depends on the values of the tensor `cause`.
struct Dimension {
  std::size_t index = 0;
  std::string cause;
  std::string kind;  // see Rule
};

class Finder {
 public:
  explicit Finder(const std::map<std::string, TensorMeta>& tensors) : tensors_(tensors) {}

  std::optional<Dimension> find(const Node& node) const {
    const auto name = key_of(node.target);
    if (name == "index.Tensor") return dimension_of_index(node);
    if (name == "one_hot.default") return dimension_of_one_hot(node);
    const auto rule = kRules.find(name);
    const bool has_size = find_argument<int64_t>(node, "output_size") != nullptr;
    if (rule == kRules.end() || has_size) return std::nullopt;
    const auto& [cause, kind, has_dim] = rule->second;
    return Dimension{has_dim ? index_of_dim(node) : 0, find_argument<TensorName>(node, cause)->name,
                     kind};
  }

 private:
  /// Returns the argument `dim` as a non-negative index. Returns 0 if the argument is None.
  std::size_t index_of_dim(const Node& node) const {
    const auto* dim = find_argument<int64_t>(node, "dim");
    if (dim == nullptr) return 0;
    const auto rank = rank_of(required_argument<TensorName>(node, "self"));
    return static_cast<std::size_t>(c10::maybe_wrap_dim(*dim, static_cast<int64_t>(rank)));
  }

  std::size_t rank_of(const TensorName& tensor) const {
    return tensors_.at(tensor.name).sizes.size();
  }

  bool is_mask(const TensorName& tensor) const {
    const auto dtype = tensors_.at(tensor.name).dtype;
    return dtype == schema_enum(c10::ScalarType::Bool) ||
           dtype == schema_enum(c10::ScalarType::Byte);
  }

  /// Returns the last dimension of one_hot's result if `num_classes` is not given. This dimension
  /// then has the size max(self) + 1. Returns nullopt if `num_classes` is given.
  std::optional<Dimension> dimension_of_one_hot(const Node& node) const {
    const auto& classes = required_argument<TensorName>(node, "self");
    const auto* count = find_argument<int64_t>(node, "num_classes");
    if (count != nullptr && *count >= 0) return std::nullopt;
    return Dimension{rank_of(classes), classes.name, "one_hot"};
  }

  /// In the result of x.index({..., mask, ...}), the elements that the mask selects lie along one
  /// dimension. Returns this dimension, or nullopt if there is no mask. The result has this
  /// dimension in place of the indexed dimensions of x, or as dimension 0 if the indexed dimensions
  /// are not adjacent. If there are also index tensors, LibTorch converts the mask to a vector of
  /// indices, and broadcasts this vector and the index tensors to a common shape. The result then
  /// has the dimensions of the common shape instead of one dimension, and the selected elements lie
  /// along the last dimension of the common shape.
  std::optional<Dimension> dimension_of_index(const Node& node) const {
    const auto& indices = required_argument<std::vector<OptionalTensor>>(node, "indices");
    const auto is_given = [](const OptionalTensor& index) {
      return std::holds_alternative<TensorName>(index);
    };
    const auto mask = std::find_if(indices.begin(), indices.end(), [&](const auto& index) {
      return is_given(index) && is_mask(std::get<TensorName>(index));
    });
    if (mask == indices.end()) return std::nullopt;
    const auto first = std::find_if(indices.begin(), indices.end(), is_given);
    const auto last = std::find_if_not(first, indices.end(), is_given);
    const bool adjacent = std::none_of(last, indices.end(), is_given);
    const auto dimension = adjacent ? static_cast<std::size_t>(first - indices.begin()) : 0;
    std::size_t rank = 1;  // of the broadcast indices
    for (const auto& index : indices) {
      if (!is_given(index) || is_mask(std::get<TensorName>(index))) continue;
      rank = std::max(rank, rank_of(std::get<TensorName>(index)));
    }
    return Dimension{dimension + rank - 1, std::get<TensorName>(*mask).name, kCount};
  }

  const std::map<std::string, TensorMeta>& tensors_;
};

}  // namespace

DataDependentSizes data_dependent_sizes(const ExportedProgram& program,
                                        const std::map<std::string, TensorMeta>& tensors) {
  DataDependentSizes sizes;
  std::set<std::string> dependent;  // tensors whose values depend on inputs of the program
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::user) dependent.insert(input.name);
  }
  // After an in-place write of a value that depends on inputs, any tensor may depend on inputs: the
  // written tensor may share memory with other tensors.
  bool all_dependent = false;
  const auto is_dependent = [&](const std::string& name) {
    return all_dependent || dependent.count(name) > 0;
  };
  const Finder finder(tensors);
  for (const auto& node : program.nodes) {
    if (const auto found = finder.find(node)) {
      for (const auto& name : names_in(node.outputs.front())) {
        sizes[{name, found->index}] = {found->kind + " " + found->cause,
                                       is_dependent(found->cause)};
      }
    }
    const bool depends_on_inputs =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const NamedArgument& input) {
          const auto names = names_in(input.value);
          return std::any_of(names.begin(), names.end(), is_dependent);
        });
    if (!depends_on_inputs) continue;
    for (const auto& output : node.outputs) {
      for (const auto& name : names_in(output)) dependent.insert(name);
    }
    if (is_in_place(node)) all_dependent = true;
  }
  return sizes;
}

}  // namespace attend::program
