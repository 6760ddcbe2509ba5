#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// The nodes of an ONNX graph as plain data, without LibTorch, so that the many rules that make
/// them compile fast. What the nodes mean: https://onnx.ai/onnx/operators, opset 18.
namespace attend::onnx {

/// Element types by their numbers in ONNX's TensorProto.
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

bool is_real(Type type);
/// What decides between types of different kinds: numbers are wider than bools, reals than whole.
int kind_of(Type type);
/// What LibTorch adds and multiplies many numbers of a type in: float32 for those of 16 bits.
Type at_least_float32(Type type);
/// What LibTorch computes with for two tensors of these types.
Type promote(Type one, Type other);

/// What a node gives, or an input of the graph.
struct Value {
  std::size_t id = 0;  ///< 0: none, as for an optional input that is left out
  Type type = Type::float32;
};

/// A number as it stands in a program.
struct Number {
  Number(int64_t whole) : whole(whole), real(static_cast<double>(whole)) {}
  Number(int whole) : Number(static_cast<int64_t>(whole)) {}
  Number(double real) : is_real(true), real(real) {}

  bool is_real = false;
  int64_t whole = 0;
  double real = 0.0;
};

/// A tensor that stands in the graph.
struct Constant {
  Type type = Type::int64;
  std::vector<int64_t> shape;
  std::vector<Number> numbers;
};

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, Constant>;
using Attributes = std::map<std::string, Attribute>;

struct Node {
  std::string kind;  ///< as in Add
  std::vector<Value> inputs;
  Attributes attributes;
  std::vector<Value> outputs;
};

/// A graph that grows at its end.
class Graph {
 public:
  /// A value from outside: an input or a weight.
  Value add_input(Type type);

  /// A node with one result, of the type of the first input unless `type` says another. Types that
  /// nodes of this kind do not take are computed as others that they do; throws Refusal if there
  /// are none.
  ///
  ///     graph.add("Add", {x, y})
  ///     graph.add("Softmax", {scores}, {{"axis", -1}})
  Value add(const std::string& kind, const std::vector<Value>& inputs,
            const Attributes& attributes = {}, std::optional<Type> type = {});
  /// A node with a result for each of `types`. Those of the first input's type are what it
  /// computes.
  std::vector<Value> add(const std::string& kind, const std::vector<Value>& inputs,
                         const Attributes& attributes, const std::vector<Type>& types);

  /// Constants; equal ones are one node.
  Value constant(const Constant& constant);
  Value list(const std::vector<int64_t>& numbers);  ///< int64, one dimension
  Value number(Type type, const Number& number);    ///< no dimension

  /// `value` itself if it has the type already.
  Value cast(Value value, Type type);
  /// Bools: whether `kind` (Less, Equal, ...) holds.
  Value compare(const std::string& kind, Value one, Value other);
  /// `yes` where the condition holds, `no` elsewhere.
  Value choose(Value condition, Value yes, Value no);
  /// The sizes of a value, int64 of one dimension.
  Value shape_of(Value value);

  /// Removes the nodes that nothing of `outputs` depends on.
  void drop_unused(const std::vector<Value>& outputs);

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  Value next(Type type) { return {++values_, type}; }
  std::vector<Value> push(const std::string& kind, const std::vector<Value>& inputs,
                          const Attributes& attributes, const std::vector<Type>& types);
  std::vector<Value> cast_all(std::vector<Value> values, Type from, Type to);

  std::size_t values_ = 0;
  std::vector<Node> nodes_;
  std::map<std::string, Value> constants_;  // by what they hold
};

}  // namespace attend::onnx
