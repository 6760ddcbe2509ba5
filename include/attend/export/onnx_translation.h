#pragma once

#include "attend/api.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace attend {

namespace onnx {
class Call;
}  // namespace onnx

/// A tensor in an ONNX graph. The default value is an omitted optional input of a node.
struct OnnxValue {
  std::size_t id = 0;                              ///< number of the tensor; 0 if it is omitted
  c10::ScalarType dtype = c10::ScalarType::Float;  ///< dtype of the elements
};

/// Value of an attribute of an ONNX node.
using OnnxAttribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

/// Attributes of an ONNX node, by name.
using OnnxAttributes = std::map<std::string, OnnxAttribute>;

/// A call of an operator that is being translated to ONNX. An `OnnxTranslation` reads the arguments
/// of the call, adds ONNX nodes to the graph, and sets the outputs of the call. Arguments have the
/// names in the schema of the operator.
class ATTEND_API OnnxCall {
 public:
  /// The exporter creates the calls.
  explicit OnnxCall(onnx::Call& call) : call_(call) {}

  /// Returns the opset of the file, `OnnxOptions::opset`.
  int64_t opset() const;
  /// Returns true if the argument is present and not None.
  bool has(const std::string& name) const;
  /// Returns a tensor argument. For a complex tensor, the value is real and has an additional last
  /// dimension of size 2, which contains the real and the imaginary part.
  OnnxValue tensor(const std::string& name);
  /// Returns the tensors of a list argument. Elements that are None become omitted inputs.
  std::vector<OnnxValue> tensors(const std::string& name);
  /// Returns the number of dimensions of a tensor argument.
  int64_t rank(const std::string& name) const;
  /// Returns an integer argument.
  int64_t integer(const std::string& name) const;
  /// Returns a floating point or integer argument.
  double real(const std::string& name) const;
  /// Returns a Boolean argument; false if it is not present.
  bool boolean(const std::string& name) const;
  /// Returns a string argument.
  std::string string(const std::string& name) const;
  /// Returns an argument that is a list of integers.
  std::vector<int64_t> integers(const std::string& name) const;

  /// Adds a node with one output and returns the output. `op_type` is an operator of ONNX, in the
  /// form of opset 18, such as "Add", or an operator of another domain, such as
  /// "com.microsoft::Gelu", with version 1 of the opset of this domain. The output has the dtype of
  /// the first input unless `dtype` is set. If onnxruntime has no kernel of an operator of ONNX for
  /// the dtype of the first input, the inputs are cast to another dtype, and the output is cast
  /// back.
  ///
  ///     call.add("LeakyRelu", {call.tensor("self")}, {{"alpha", 0.1}});
  OnnxValue add(const std::string& op_type, const std::vector<OnnxValue>& inputs,
                const OnnxAttributes& attributes = {}, std::optional<c10::ScalarType> dtype = {});
  /// Adds a node with several outputs. `dtypes` contains the dtype of each output.
  std::vector<OnnxValue> add(const std::string& op_type, const std::vector<OnnxValue>& inputs,
                             const OnnxAttributes& attributes,
                             const std::vector<c10::ScalarType>& dtypes);
  /// Adds a constant.
  ///
  ///     call.constant(torch::tensor({0, -1}));
  OnnxValue constant(const at::Tensor& tensor);
  /// Casts a value to a dtype.
  OnnxValue cast(OnnxValue value, c10::ScalarType dtype);
  /// Sets output `i` of the call, cast to the dtype of the output.
  void set_output(OnnxValue value, std::size_t i = 0);

  /// Throws an error: the export fails with the message `why`, which follows the name of the
  /// operator and precedes the call site.
  [[noreturn]] void fail(const std::string& why) const;

 private:
  onnx::Call& call_;
};

/// Translation rule of an operator: a function that adds the ONNX nodes for a call of the operator
/// and sets the outputs of the call.
using OnnxTranslation = std::function<void(OnnxCall&)>;

/// Registers how `export_onnx` translates an operator, for example one that was defined with
/// TORCH_LIBRARY. `name` is the name in the dispatcher, with the overload if it is not the default
/// one, such as "mylib::clip" or "aten::add.Tensor". If the exporter has its own translation of the
/// operator, the new one replaces it. Thread-safe, but translations must be registered before the
/// exports that use them.
///
/// The exporter runs the operator itself to verify the exported program, and does not run the ONNX
/// nodes: compare the outputs of the file in your ONNX runtime with those of the module.
///
/// Throws c10::ValueError if there is no such operator, or if a translation of the operator has
/// been registered already.
///
///     register_onnx_translation("mylib::double_relu", [](OnnxCall& call) {
///       const auto positive = call.add("Relu", {call.tensor("x")});
///       call.set_output(call.add("Add", {positive, positive}));
///     });
ATTEND_API void register_onnx_translation(const std::string& name, OnnxTranslation translation);

}  // namespace attend
