#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// A forward as plain data: calls of ATen operators, in the words of torch.export's schema
/// (torch/_export/serde/schema.py), which numbers dtypes, layouts and memory formats in its own
/// way. Without LibTorch, so that what reads a foreign file runs none of its code.
namespace attend::program {

struct Device {
  std::string type;
  std::optional<int64_t> index;
};

/// A number, or an expression in symbols as SymPy writes it.
struct Size {
  int64_t value = 0;       ///< what it was when the program was exported, if it is an expression
  std::string expression;  ///< empty if it is a number
};

struct TensorMeta {
  int64_t dtype = 0;
  std::vector<Size> sizes;
  std::vector<Size> strides;
  Size storage_offset;
  bool requires_grad = false;
  Device device;
  int64_t layout = 0;
  /// Not in the schema: whether it is so, in LibTorch's default format, at all sizes or at none;
  /// nothing if that depends on the sizes or is not known.
  std::optional<bool> is_contiguous = {};
};

struct Nothing {};
struct TensorName {
  std::string name;
};
/// The name of a number, or of whether something holds, that a node gave.
struct SymbolName {
  std::string name;
};
struct DtypeNumber {
  int64_t number = 0;
};
struct LayoutNumber {
  int64_t number = 0;
};
struct MemoryFormatNumber {
  int64_t number = 0;
};

using OptionalTensor = std::variant<Nothing, TensorName>;
template <typename T>
using ValueOrSymbol = std::variant<T, SymbolName>;  // a value, or the name of one

using Argument =
    std::variant<Nothing, TensorName, std::vector<TensorName>, std::vector<OptionalTensor>,
                 SymbolName, int64_t, double, bool, std::string,
                 std::vector<ValueOrSymbol<int64_t>>, std::vector<ValueOrSymbol<double>>,
                 std::vector<ValueOrSymbol<bool>>, std::vector<std::string>, DtypeNumber,
                 LayoutNumber, MemoryFormatNumber, Device>;

struct NamedArgument {
  std::string name;  ///< in the operator's schema
  Argument value;
  bool is_keyword_only = false;  ///< as Python takes it
};

struct Node {
  std::string target;  ///< as in torch.ops.aten.add.Tensor, or _operator.mul for numbers
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;  ///< names
};

enum class InputKind { parameter, buffer, constant, user };
struct Input {
  InputKind kind = InputKind::user;
  std::string name;    ///< in the graph
  std::string target;  ///< of weights: their name in the state dict
  bool persistent = true;
  bool is_number = false;  ///< a whole one, of the user
};

/// Whether it is in the state dict.
inline bool is_state(const Input& input) {
  return (input.kind == InputKind::parameter || input.kind == InputKind::buffer) &&
         input.persistent;
}

enum class OutputKind { user, buffer_mutation, input_mutation };
struct Output {
  OutputKind kind = OutputKind::user;
  Argument value;
  std::string target;  ///< the buffer or input that takes the value
};

struct Range {
  std::optional<int64_t> least;
  std::optional<int64_t> greatest;
};

struct Program {
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Node> nodes;
  std::map<std::string, TensorMeta> tensors;  ///< by their name in the graph
  std::map<std::string, Size> numbers;        ///< whole ones, by their name in the graph
  std::map<std::string, Range> ranges;        ///< of symbols
};

}  // namespace attend::program
