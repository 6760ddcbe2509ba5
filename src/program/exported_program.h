#pragma once

#include "program/size.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

/// torch.export's ExportedProgram as plain data. Dtypes, layouts and memory formats are enum values
/// of torch.export's schema (torch/_export/serde/schema.py). The types do not use LibTorch, so
/// parsing an untrusted file runs no code of LibTorch.
namespace attend::program {

struct Device {
  std::string type;
  std::optional<int64_t> index;
};

/// Metadata of a tensor.
struct TensorMeta {
  int64_t dtype = 0;  ///< value of the schema's enum ScalarType
  std::vector<Size> sizes;
  std::vector<Size> strides;
  Size storage_offset;
  bool requires_grad = false;
  Device device;
  int64_t layout = 0;  ///< value of the schema's enum Layout
  /// This field is not in the schema. The exporter runs the program several times. The field is
  /// true if the tensor is contiguous in all of these runs, and false if it is contiguous in none.
  /// The field is nullopt if the runs differ, or if it is unknown whether the tensor is contiguous.
  std::optional<bool> is_contiguous = {};
};

struct None {};
struct TensorName {
  std::string name;
};
/// Name of a SymInt, SymFloat or SymBool.
struct SymbolName {
  std::string name;
};
struct SchemaDtype {
  int64_t value = 0;
};
struct SchemaLayout {
  int64_t value = 0;
};
struct SchemaMemoryFormat {
  int64_t value = 0;
};

using OptionalTensor = std::variant<None, TensorName>;
template <typename T>
using ValueOrSymbol = std::variant<T, SymbolName>;

using Argument =
    std::variant<None, TensorName, std::vector<TensorName>, std::vector<OptionalTensor>, SymbolName,
                 int64_t, double, bool, std::string, std::vector<ValueOrSymbol<int64_t>>,
                 std::vector<ValueOrSymbol<double>>, std::vector<ValueOrSymbol<bool>>,
                 std::vector<std::string>, SchemaDtype, SchemaLayout, SchemaMemoryFormat, Device>;

struct NamedArgument {
  std::string name;  ///< name in the operator's schema, or empty for a positional argument
  Argument value;
  bool is_keyword_only = false;  ///< true if Python passes the argument by keyword
};

struct Graph;

/// Call of an operator.
struct Node {
  std::string target;  ///< "torch.ops.aten.add.Tensor", or "_operator.mul" for SymInts
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;  ///< names of tensors and symbols
  /// Arguments that are graphs. Only higher-order operators, such as torch.cond, have them.
  std::vector<std::shared_ptr<const Graph>> graphs = {};
  std::string stack_trace = {};  ///< source line of the call, only for export; may be empty
};

/// An argument of a higher-order operator. Its names are not visible outside, nor are names of the
/// outer graph visible inside.
struct Graph {
  std::vector<Argument> inputs;  ///< names of tensors and symbols
  std::vector<Node> nodes;
  std::vector<Argument> outputs;
};

enum class InputKind { parameter, buffer, constant, user };
struct Input {
  InputKind kind = InputKind::user;
  std::string name;         ///< name in the graph
  std::string target;       ///< name of the parameter, buffer or constant; empty for user inputs
  bool persistent = true;   ///< false for buffers that are not in the state dict
  bool is_sym_int = false;  ///< user input that is a SymInt, not a tensor
};

/// Returns true if the input is in the state dict.
inline bool is_state(const Input& input) {
  return (input.kind == InputKind::parameter || input.kind == InputKind::buffer) &&
         input.persistent;
}

enum class OutputKind { user, buffer_mutation, input_mutation };
struct Output {
  OutputKind kind = OutputKind::user;
  Argument value;
  std::string target;  ///< name of the mutated buffer or input; empty for user outputs
};

struct ExportedProgram {
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Node> nodes;
  std::map<std::string, TensorMeta> tensors;   ///< metadata by name in the graph
  std::map<std::string, Size> sym_ints;        ///< SymInts by name in the graph
  std::set<std::string> sym_floats;            ///< SymFloats by name in the graph
  std::map<std::string, Range> ranges;         ///< range constraints by symbol
  std::vector<std::string> output_names = {};  ///< of the user outputs; set if read from an archive
};

}  // namespace attend::program
