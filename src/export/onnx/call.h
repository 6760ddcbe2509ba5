#pragma once

#include "export/onnx/translation.h"
#include "program/exported_program.h"

#include <optional>
#include <string>
#include <vector>

namespace attend::onnx {

/// An operator call in the exported program. A translation rule (`Rule`) takes a Call as its
/// argument.
class Call {
 public:
  Call(const program::Node& node, Translation& translation);

  Graph& graph() { return translation_.graph; }

  /// From now on, the call has arguments and results in float32 instead of float16 or bfloat16.
  /// `set_output` casts the results back.
  void compute_in_float32() { computes_in_float32_ = true; }

  // Arguments of the call. `name` is the name of the argument in the operator's schema.

  /// Returns true if the argument is present and not None.
  bool has(const std::string& name) const;
  bool is_tensor(const std::string& name) const;
  /// Returns true if the argument is a tensor of complex numbers (see `onnx::is_complex`).
  bool is_complex(const std::string& name) const;
  bool is_string(const std::string& name) const;
  Value tensor(const std::string& name);
  std::vector<Value> tensors(const std::string& name);
  /// Returns the value of a tensor argument, or an empty Value if the argument is None.
  Value optional_tensor(const std::string& name) { return has(name) ? tensor(name) : Value{}; }
  /// Returns the names of the tensors in a list argument. Elements that are None become nullopt.
  std::vector<std::optional<std::string>> optional_tensors(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  /// Returns true if the argument is a number, or a list of numbers, that is computed from sizes.
  bool is_computed(const std::string& name) const;
  std::size_t length(const std::string& name) const;  ///< of a list of integers
  /// Returns an integer or a list of integers, constant or computed from sizes, as an int64 tensor
  /// of shape (1) or (length of the list).
  Value integers_value(const std::string& name);
  /// As above, for one element of the list.
  Value integer_value(const std::string& name, std::size_t index);
  double real(const std::string& name) const;
  bool boolean(const std::string& name) const;
  std::string string(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name) const;
  std::vector<double> reals(const std::string& name) const;
  Number number(const std::string& name) const;
  /// Returns a tensor or number argument, constant or computed from sizes, cast to `type`.
  Value operand(const std::string& name, Type type);
  /// Returns the product of `value` and a numeric argument. Returns `value` itself if the argument
  /// is None or 1.
  Value times(Value value, const std::string& name);

  // Metadata of tensor arguments.

  const Sizes& sizes(const std::string& name) const;
  const Sizes& sizes_of_tensor(const std::string& name_in_program) const;
  int64_t rank(const std::string& name) const { return static_cast<int64_t>(sizes(name).size()); }
  /// Returns the argument `name`, which is a dimension of the tensor argument `of`. A negative
  /// dimension is converted to the equivalent non-negative one.
  int64_t dimension(const std::string& name, const std::string& of = "self") const;
  /// As `dimension`, but for an argument that is a list of dimensions.
  std::vector<int64_t> dimensions(const std::string& name, const std::string& of = "self") const;
  /// Returns the promoted type in which LibTorch compares two arguments.
  Type common_type(const std::string& one, const std::string& other) const;

  /// Returns the type in which LibTorch multiplies and divides. This is the type of the output,
  /// with one exception: it is float32 if the output is float16 or bfloat16, and one of the
  /// arguments `names` is a number that the output's type does not represent exactly, or a
  /// 0-dimensional tensor of another floating point type.
  Type arithmetic_type(const std::vector<std::string>& names) const;

  // Outputs.

  std::size_t num_outputs() const;
  /// Returns the type of the elements of output `i`, or of the parts of its complex elements.
  Type result_type(std::size_t i = 0) const;
  const Sizes& result_sizes(std::size_t i = 0) const;
  int64_t result_rank(std::size_t i = 0) const {
    return static_cast<int64_t>(result_sizes(i).size());
  }
  /// Sets output `i` to `value`, cast to the output's type.
  void set_output(Value value, std::size_t i = 0);

  // The next four functions call the functions of Translation that have the same names. If a size
  // is dynamic, those functions add nodes to the graph, and these nodes read the size at run time.

  Value size(const program::Size& size) { return translation_.size(size); }
  /// Returns 0, 1, ..., size - 1 as an int64 tensor of shape (size).
  Value range(const program::Size& size) { return translation_.range(size); }
  Value shape(const Sizes& sizes) { return translation_.shape(sizes); }
  Value reshape(Value value, const Sizes& from, const Sizes& to) {
    return translation_.reshape(value, from, to);
  }

  /// Returns the value of a size that ONNX requires as a constant. Throws UnsupportedOperatorError
  /// if the size is dynamic. `what` describes the size in the error message.
  int64_t fixed(const program::Size& size, const std::string& what) const;

  /// Returns a lower bound of a size.
  int64_t smallest(const program::Size& size) const;
  /// Returns an upper bound of a size: the largest int64_t if there is none.
  int64_t largest(const program::Size& size) const;

  /// Throws UnsupportedOperatorError with the message `why`.
  [[noreturn]] void fail(const std::string& why) const;

 private:
  const program::Argument& argument(const std::string& name) const;
  const program::SymbolName* symbol(const std::string& name) const;
  bool is_real(const std::string& name) const;
  const std::string& tensor_name(const std::string& name) const;
  const std::string& result_name(std::size_t i) const;
  const program::TensorMeta& meta(const std::string& name_in_program) const;
  /// Returns the type in which the call computes with tensors of type `type`.
  Type computed_type(Type type) const {
    return computes_in_float32_ ? at_least_float32(type) : type;
  }

  const program::Node& node_;
  Translation& translation_;
  std::vector<std::string> results_;
  bool computes_in_float32_ = false;
};

/// Returns the names of the tensors that a node returns.
std::vector<std::string> results_of(const program::Node& node);

/// Returns the operator's name without its overload, such as "aten::add" for the target
/// "torch.ops.aten.add.Tensor". A target without the prefix "torch.ops." is returned unchanged.
std::string operator_name(const std::string& target);

}  // namespace attend::onnx
