#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// An ONNX graph as plain data. This header does not include LibTorch, so that the sources of the
/// translation rules compile fast. The ONNX operators are documented at
/// https://onnx.ai/onnx/operators; `opset.h` contains the opsets.
namespace attend::onnx {

/// Element types. The values are those of the enum TensorProto.DataType of ONNX.
enum class Type : int32_t {
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  bfloat16 = 16,
};

bool is_floating_point(Type type);
/// Category for type promotion: 0 for bool, 1 for integers, 2 for floating point.
int category_of(Type type);
/// Returns the type in which LibTorch accumulates: float32 for 16-bit floating point types, else
/// `type`.
Type at_least_float32(Type type);
/// Returns the type to which two types are promoted. The rules are those of torch::promote_types.
Type promote(Type one, Type other);

/// An output of a node, or an input or initializer of the graph.
struct Value {
  std::size_t id = 0;  ///< 0 = an omitted optional input
  Type type = Type::float32;
};

/// An integer or floating point constant.
struct Number {
  Number(int64_t value) : integer(value), real(static_cast<double>(value)) {}
  Number(int value) : Number(static_cast<int64_t>(value)) {}
  Number(double value) : is_real(true), real(value) {}

  bool is_real = false;
  int64_t integer = 0;
  double real = 0.0;
};

/// A constant tensor.
struct Constant {
  Type type = Type::int64;
  std::vector<int64_t> shape;
  std::vector<Number> numbers;
};

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, Constant>;
using Attributes = std::map<std::string, Attribute>;

struct Node {
  std::string op_type;  ///< such as "Add", or "com.microsoft::Gelu" in another domain than ONNX's
  std::vector<Value> inputs;
  Attributes attributes;
  std::vector<Value> outputs;
};

/// An ONNX graph; nodes are appended in topological order.
class Graph {
 public:
  explicit Graph(int64_t opset = 18) : opset_(opset) {}

  /// Returns the opset of the file.
  int64_t opset() const { return opset_; }
  /// Returns true if the opset has the operator (see `has_operator`).
  bool has(const std::string& op_type) const;

  /// Adds a graph input or initializer.
  Value add_input(Type type);

  /// Adds a node with one output. The output has the type of the first input unless `type` is set.
  /// If the operator does not support the type of the first input, the inputs of this type are cast
  /// to a fallback type, and the output is cast back unless `type` is set. Throws
  /// UnsupportedOperatorError if there is no fallback type, or if the opset cannot express the
  /// node. Nodes have the form of opset 18; see `adapt`.
  ///
  ///     graph.add("Add", {x, y})
  ///     graph.add("Softmax", {scores}, {{"axis", -1}})
  Value add(const std::string& op_type, const std::vector<Value>& inputs,
            const Attributes& attributes = {}, std::optional<Type> type = {});
  /// Adds a node with several outputs. `types` contains the type of each output. If the operator
  /// does not support the type of the first input, the inputs of this type are cast to a fallback
  /// type. The outputs that have the type of the first input are then computed in the fallback type
  /// and cast back.
  std::vector<Value> add(const std::string& op_type, const std::vector<Value>& inputs,
                         const Attributes& attributes, const std::vector<Type>& types);

  /// Adds a constant. Equal constants share a node.
  Value constant(const Constant& constant);
  Value list(const std::vector<int64_t>& numbers);  ///< adds a 1-dimensional int64 constant
  Value number(Type type, const Number& number);    ///< adds a 0-dimensional constant

  /// Returns 0, 1, ..., end - 1 as a tensor of shape (end). `end` is a 0-dimensional int64 tensor.
  Value range(Value end);

  /// Casts `value` to `type`. Returns `value` itself if it has this type.
  Value cast(Value value, Type type);
  /// Adds a comparison (Less, Equal, ...), which returns bool.
  Value compare(const std::string& op_type, Value one, Value other);
  /// Returns `yes` where the condition is true, else `no`.
  Value where(Value condition, Value yes, Value no);
  /// Returns the shape of a value as an int64 tensor of shape (rank).
  Value shape_of(Value value);

  /// Removes nodes that `outputs` do not depend on.
  void drop_unused(const std::vector<Value>& outputs);

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  Value next(Type type) { return {++values_, type}; }
  std::vector<Value> push(const std::string& op_type, const std::vector<Value>& inputs,
                          const Attributes& attributes, const std::vector<Type>& types);
  std::vector<Value> cast_all(std::vector<Value> values, Type from, Type to);

  std::vector<int64_t> numbers_of(const Value& constant) const;

  int64_t opset_;
  std::size_t values_ = 0;
  std::vector<Node> nodes_;
  std::map<std::string, Value> constants_;  // constants by their type, shape and numbers as text
};

}  // namespace attend::onnx
