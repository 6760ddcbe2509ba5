#pragma once

#include "export/onnx/graph.h"
#include "program/exported_program.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attend::onnx {

using Sizes = std::vector<program::Size>;

inline bool is_fixed(const program::Size& size) {
  return size.expression.empty();
}
/// Returns true if both sizes have the same expression, or if both are fixed and equal.
inline bool same(const program::Size& one, const program::Size& other) {
  return one.expression == other.expression && (!is_fixed(one) || one.value == other.value);
}

/// Returns true for a tensor of complex numbers. Since ONNX operators do not support complex
/// numbers, its value in the ONNX graph is real and has an additional last dimension of size 2,
/// which contains the real and the imaginary part.
bool is_complex(const program::TensorMeta& meta);

/// Returns the ONNX type of the elements of a tensor or, if it is complex, of their real and
/// imaginary parts. Throws UnsupportedOperatorError if ONNX does not have this type.
Type component_type_of(const program::TensorMeta& meta);

/// Returns the ONNX element type of a tensor. Throws UnsupportedOperatorError if ONNX does not have
/// the dtype of the tensor.
Type type_of(const program::TensorMeta& meta);

/// State of the translation of a program: the ONNX graph, the ONNX values of the program's tensors,
/// and the tensors from which dynamic sizes are read at run time.
struct Translation {
  const program::ExportedProgram& program;
  Graph graph;
  /// ONNX values by the names of the program's tensors, SymInts and SymFloats. A SymInt is an int64
  /// tensor of shape (1), a SymFloat a float64 tensor of shape (1).
  std::map<std::string, Value> values = {};
  /// Maps the expression of each dynamic size to a value and one of the value's dimensions, which
  /// has this size.
  std::map<program::Expression, std::pair<Value, int64_t>> dynamic_sizes = {};
  std::map<program::Expression, Value> sizes_read =
      {};  // outputs of Shape nodes, by the size's expression

  /// Adds the dynamic sizes of a value to `dynamic_sizes`.
  void add_dynamic_sizes(Value value, const Sizes& sizes);
  /// Returns a size as an int64 tensor of shape (1). A dynamic size is read from a dimension of an
  /// earlier tensor, or computed from such sizes. Throws UnsupportedOperatorError if a symbol of
  /// the size is in no earlier tensor.
  Value size(const program::Size& size);
  /// Returns true if `size` does not throw.
  bool is_readable(const program::Expression& expression) const;
  /// Returns 0, 1, ..., size - 1 as an int64 tensor of shape (size).
  Value range(const program::Size& size);
  /// Returns all sizes of a tensor as one int64 tensor of shape (rank).
  Value shape(const Sizes& sizes);
  /// Reshapes `value` from the shape `from` to the shape `to`.
  Value reshape(Value value, const Sizes& from, const Sizes& to);

 private:
  Value computed(const program::Expression& expression);
};

}  // namespace attend::onnx
