#pragma once

#include "export/onnx/graph.h"
#include "export/program/exported_program.h"

#include <map>
#include <string>
#include <vector>

namespace attend::onnx {

using Sizes = std::vector<program::Size>;

inline bool is_fixed(const program::Size& size) {
  return size.expression.empty();
}
/// Returns true if two sizes are equal for all sizes of the dynamic dimensions.
inline bool same(const program::Size& one, const program::Size& other) {
  return one.expression == other.expression && (!is_fixed(one) || one.value == other.value);
}

/// Returns the ONNX element type of a tensor. Throws UnsupportedOperatorError if ONNX lacks it.
Type type_of(const program::TensorMeta& meta);

/// State of a translation.
struct Translation {
  const program::ExportedProgram& program;
  Graph graph;
  std::map<std::string, Value> values = {};  // by name in the program
  /// A value and dimension to read each dynamic size from, by expression.
  std::map<std::string, std::pair<Value, int64_t>> dynamic_sizes = {};
  std::map<std::string, Value> sizes_read = {};  // results of Shape, by expression

  /// Adds the dynamic sizes of a value to `dynamic_sizes`.
  void add_dynamic_sizes(Value value, const Sizes& sizes);
};

/// An operator call of a program, as seen by its translation rule.
class Call {
 public:
  Call(const program::Node& node, Translation& translation);

  Graph& graph() { return translation_.graph; }

  // Arguments by name in the operator's schema.

  /// Returns true if the argument is present and not None.
  bool has(const std::string& name) const;
  bool is_tensor(const std::string& name) const;
  bool is_string(const std::string& name) const;
  Value tensor(const std::string& name);
  std::vector<Value> tensors(const std::string& name);
  /// Returns the tensor, or an empty Value for None.
  Value optional_tensor(const std::string& name) { return has(name) ? tensor(name) : Value{}; }
  /// Returns the names of a list of tensors, nullopt for None.
  std::vector<std::optional<std::string>> optional_tensors(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  bool boolean(const std::string& name) const;
  std::string string(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name) const;
  std::vector<double> reals(const std::string& name) const;
  Number number(const std::string& name) const;
  /// Returns a tensor or number cast to `type`.
  Value operand(const std::string& name, Type type);
  /// Returns `value` times a numeric argument; `value` itself if the argument is None or 1.
  Value times(Value value, const std::string& name);

  // Metadata of tensor arguments.

  const Sizes& sizes(const std::string& name) const;
  const Sizes& sizes_of_tensor(const std::string& name_in_program) const;
  int64_t rank(const std::string& name) const { return static_cast<int64_t>(sizes(name).size()); }
  /// Returns a dimension argument as a non-negative dimension of the tensor argument `of`.
  int64_t dimension(const std::string& name, const std::string& of = "self") const;
  /// As above, for a list.
  std::vector<int64_t> dimensions(const std::string& name, const std::string& of = "self") const;
  /// Returns the promoted type in which LibTorch compares two arguments.
  Type common_type(const std::string& one, const std::string& other) const;

  // Outputs.

  std::size_t num_outputs() const;
  Type result_type(std::size_t i = 0) const;
  const Sizes& result_sizes(std::size_t i = 0) const;
  int64_t result_rank(std::size_t i = 0) const {
    return static_cast<int64_t>(result_sizes(i).size());
  }
  /// Sets output `i` to `value`, cast to the output's type.
  void set_output(Value value, std::size_t i = 0);

  // Sizes at run time.

  /// Returns a size as int64 (1). Throws UnsupportedOperatorError if no earlier tensor has it.
  Value size(const program::Size& size);
  /// Returns sizes as int64 (rank).
  Value shape(const Sizes& sizes);
  /// Reshapes `value` of shape `from` to shape `to`.
  Value reshape(Value value, const Sizes& from, const Sizes& to);

  /// Throws UnsupportedOperatorError with the message `why`.
  [[noreturn]] void fail(const std::string& why) const;

 private:
  const program::Argument& argument(const std::string& name) const;
  const std::string& tensor_name(const std::string& name) const;
  const std::string& result_name(std::size_t i) const;
  const program::TensorMeta& meta(const std::string& name_in_program) const;

  const program::Node& node_;
  Translation& translation_;
  std::vector<std::string> results_;
};

/// Returns the names of the tensors of an argument or output.
std::vector<std::string> names_in(const program::Argument& argument);
std::vector<std::string> results_of(const program::Node& node);

/// Returns "aten::add" for the target torch.ops.aten.add.Tensor.
std::string operator_name(const std::string& target);

}  // namespace attend::onnx
