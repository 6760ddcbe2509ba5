#include "export/program/data_dependent_sizes.h"

#include "pt2/program/schema_enums.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace attend::program {
namespace {

/// Returns an argument, or nullptr if the node has no argument of this name and type.
template <typename T>
const T* argument(const Node& node, std::string_view name) {
  for (const auto& input : node.inputs) {
    if (input.name == name) return std::get_if<T>(&input.value);
  }
  return nullptr;
}

/// Names of the tensors in an argument or output.
std::vector<std::string> names_in(const Argument& argument) {
  std::vector<std::string> names;
  if (const auto* tensor = std::get_if<TensorName>(&argument)) names.push_back(tensor->name);
  if (const auto* tensors = std::get_if<std::vector<TensorName>>(&argument)) {
    for (const auto& tensor : *tensors) names.push_back(tensor.name);
  }
  if (const auto* optional = std::get_if<std::vector<OptionalTensor>>(&argument)) {
    for (const auto& item : *optional) {
      if (const auto* tensor = std::get_if<TensorName>(&item)) names.push_back(tensor->name);
    }
  }
  return names;
}

/// Returns true for an operator such as aten.add_.Tensor, which mutates `self`.
bool is_in_place(const Node& node) {
  return node.target.find("_.") != std::string::npos &&
         argument<TensorName>(node, "self") != nullptr;
}

/// A dimension of an operator's outputs whose size depends on values.
struct Dimension {
  std::size_t index = 0;
  std::string origin;
};

class Finder {
 public:
  explicit Finder(const ExportedProgram& program) : program_(program) {}

  std::optional<Dimension> find(const Node& node) const {
    constexpr std::string_view kPrefix = "torch.ops.aten.";
    if (!node.target.starts_with(kPrefix)) return std::nullopt;
    const auto name = node.target.substr(kPrefix.size());
    if (name == "masked_select.default") return Dimension{0, "selected by " + name_of(node)};
    if (name == "nonzero.default" || name == "nonzero_numpy.default" ||
        name == "argwhere.default") {
      return Dimension{0, count_of(*argument<TensorName>(node, "self"))};
    }
    if (name == "where.default")
      return Dimension{0, count_of(*argument<TensorName>(node, "condition"))};
    if (name == "index.Tensor") return dimension_of_index(node);
    if (name == "bincount.default" || name == "_unique2.default" || name == "_unique.default") {
      return Dimension{0, name_of(node)};
    }
    if (name == "unique_dim.default" || name == "unique_consecutive.default" ||
        name == "unique_dim_consecutive.default") {
      return Dimension{index_of(node, "self"), name_of(node)};
    }
    const bool has_size = argument<int64_t>(node, "output_size") != nullptr;
    if (name == "repeat_interleave.Tensor" && !has_size) return Dimension{0, name_of(node)};
    if (name == "repeat_interleave.self_Tensor" && !has_size) {
      return Dimension{index_of(node, "self"), name_of(node)};
    }
    return std::nullopt;
  }

 private:
  static std::string name_of(const Node& node) { return names_in(node.outputs.front()).front(); }

  /// Number of elements of a mask that are not 0.
  static std::string count_of(const TensorName& mask) { return "count of " + mask.name; }

  /// Returns the argument `dim` as an index from 0. Returns 0 if it is missing.
  std::size_t index_of(const Node& node, const char* tensor) const {
    const auto* dim = argument<int64_t>(node, "dim");
    if (dim == nullptr) return 0;
    const auto& meta = program_.tensors.at(argument<TensorName>(node, tensor)->name);
    return static_cast<std::size_t>(*dim < 0 ? *dim + static_cast<int64_t>(meta.sizes.size())
                                             : *dim);
  }

  bool is_mask(const TensorName& tensor) const {
    const auto dtype = program_.tensors.at(tensor.name).dtype;
    return dtype == schema_enum(c10::ScalarType::Bool) ||
           dtype == schema_enum(c10::ScalarType::Byte);
  }

  /// x.index({mask}) has a dimension of selected elements in place of the mask's dimensions. The
  /// dimension comes first if dimensions that are not indexed lie between indexed ones. Together
  /// with a tensor of indices, the mask counts as a vector, which is broadcast to its last
  /// dimension.
  std::optional<Dimension> dimension_of_index(const Node& node) const {
    const auto& indices = *argument<std::vector<OptionalTensor>>(node, "indices");
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
      rank = std::max(rank, program_.tensors.at(std::get<TensorName>(index).name).sizes.size());
    }
    return Dimension{dimension + rank - 1, count_of(std::get<TensorName>(*mask))};
  }

  const ExportedProgram& program_;
};

}  // namespace

std::map<std::pair<std::string, std::size_t>, DataDependentSize> data_dependent_sizes(
    const ExportedProgram& program) {
  std::map<std::pair<std::string, std::size_t>, DataDependentSize> sizes;
  std::set<std::string> dependent;  // tensors whose values depend on inputs of the program
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::user) dependent.insert(input.name);
  }
  const Finder finder(program);
  for (const auto& node : program.nodes) {
    const bool depends_on_inputs =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const NamedArgument& input) {
          const auto names = names_in(input.value);
          return std::any_of(names.begin(), names.end(),
                             [&](const auto& name) { return dependent.count(name) > 0; });
        });
    if (const auto dimension = finder.find(node)) {
      for (const auto& name : names_in(node.outputs.front())) {
        sizes[{name, dimension->index}] = {dimension->origin, depends_on_inputs};
      }
    }
    if (!depends_on_inputs) continue;
    for (const auto& output : node.outputs) {
      for (const auto& name : names_in(output)) dependent.insert(name);
    }
    if (is_in_place(node)) dependent.insert(argument<TensorName>(node, "self")->name);
  }
  return sizes;
}

}  // namespace attend::program
