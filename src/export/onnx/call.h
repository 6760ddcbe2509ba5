#pragma once

#include "export/onnx/graph.h"
#include "export/program/program.h"

#include <map>
#include <string>
#include <vector>

namespace attend::onnx {

using Sizes = std::vector<program::Size>;

inline bool is_fixed(const program::Size& size) {
  return size.expression.empty();
}
/// Whether two sizes are the same whatever the dynamic ones are.
inline bool same(const program::Size& one, const program::Size& other) {
  return one.expression == other.expression && (!is_fixed(one) || one.value == other.value);
}

/// The element type that a program's number stands for. Throws Refusal for those that
/// ONNX lacks.
Type type_of(const program::TensorMeta& meta);

/// What is known while a program is translated.
struct Translation {
  const program::Program& program;
  Graph graph;
  std::map<std::string, Value> values = {};  // by their names in the program
  /// A dimension of some value for each size that is not fixed, by its expression.
  std::map<std::string, std::pair<Value, int64_t>> dynamic_sizes = {};
  std::map<std::string, Value> sizes_read = {};  // those that have been, by expression

  /// Notes where the sizes of a value can be read.
  void note_sizes(Value value, const Sizes& sizes);
};

/// A call of an operator of a program, as the rules that translate it see it.
class Call {
 public:
  Call(const program::Node& node, Translation& translation);

  Graph& graph() { return translation_.graph; }

  // The arguments by their names in the operator's schema.

  /// Whether it is there and is not None.
  bool has(const std::string& name) const;
  bool is_tensor(const std::string& name) const;
  bool is_text(const std::string& name) const;
  Value tensor(const std::string& name);
  std::vector<Value> tensors(const std::string& name);
  /// A tensor, or nothing in its place.
  Value optional_tensor(const std::string& name) { return has(name) ? tensor(name) : Value{}; }
  /// What of a list of tensors is there.
  std::vector<std::optional<std::string>> optional_tensors(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  bool flag(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name) const;
  std::vector<double> reals(const std::string& name) const;
  Number number(const std::string& name) const;
  /// A tensor or a number, as `type`.
  Value operand(const std::string& name, Type type);
  /// `value` times the number that an argument is, if it is there and is not 1.
  Value times(Value value, const std::string& name);

  // What is known of tensors among the arguments.

  const Sizes& sizes(const std::string& name) const;
  const Sizes& sizes_of_tensor(const std::string& name_in_program) const;
  int64_t rank(const std::string& name) const { return static_cast<int64_t>(sizes(name).size()); }
  /// A dimension of the tensor `of`, not negative.
  int64_t dimension(const std::string& name, const std::string& of = "self") const;
  /// The same for several.
  std::vector<int64_t> dimensions(const std::string& name, const std::string& of = "self") const;
  /// What LibTorch compares two arguments as.
  Type common_type(const std::string& one, const std::string& other) const;

  // The results.

  std::size_t results() const;
  Type result_type(std::size_t i = 0) const;
  const Sizes& result_sizes(std::size_t i = 0) const;
  int64_t result_rank(std::size_t i = 0) const {
    return static_cast<int64_t>(result_sizes(i).size());
  }
  /// Makes `value` the result, with the type that the operator gives.
  void give(Value value, std::size_t i = 0);

  // Sizes while the graph runs.

  /// The size, int64 of one element. Refuses one that no tensor so far has.
  Value size(const program::Size& size);
  /// Sizes, int64 of one dimension.
  Value shape(const Sizes& sizes);
  /// `value`, which has the sizes `from`, with those of `to`.
  Value reshape(Value value, const Sizes& from, const Sizes& to);

  /// Throws Refusal.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const program::Argument& argument(const std::string& name) const;
  const std::string& tensor_name(const std::string& name) const;
  const std::string& result_name(std::size_t i) const;
  const program::TensorMeta& meta(const std::string& name_in_program) const;

  const program::Node& node_;
  Translation& translation_;
  std::vector<std::string> results_;
};

/// The names of the tensors that an argument or a result is.
std::vector<std::string> names_in(const program::Argument& argument);
std::vector<std::string> results_of(const program::Node& node);

/// As aten::add, of a target like torch.ops.aten.add.Tensor.
std::string operator_name(const std::string& target);

}  // namespace attend::onnx
