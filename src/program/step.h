#pragma once

#include "program/allowed_operators.h"
#include "program/argument_source.h"
#include "program/exported_program.h"
#include "program/sym_operators.h"
#include "program/value_table.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace attend::program {

/// Computes the product of an operator, if `apply_linear` has a faster kernel for these arguments
/// than LibTorch. Otherwise, returns std::nullopt.
using FastProduct = std::optional<torch::Tensor> (*)(const torch::jit::Stack& arguments);

/// A node of the program in executable form: with the operator, and with slots (see ValueTable)
/// instead of names.
struct Step {
  std::string target;
  std::optional<c10::OperatorHandle> handle;  // nullopt for an operator on SymInts
  SymOperator sym_operator = nullptr;
  FastProduct fast_product = nullptr;  // null for operators other than products
  std::vector<Source> arguments;
  /// Slots of each output. An output that is a list of tensors has one slot per tensor.
  std::vector<std::vector<std::size_t>> outputs;
  std::vector<bool> is_list;           // true for each output that is a list of tensors
  std::vector<std::size_t> last_used;  // slots to free after this step
};

/// Converts the nodes of a program to steps, in the order of the nodes.
class Compiler {
 public:
  Compiler(torch::Device device, const AllowedOperators& allowed)
      : device_(device), allowed_(allowed) {}

  /// Returns the step of a node, and defines the names of the node's outputs. Throws InputError if
  /// the node is invalid. The message names the node's target.
  Step compile(const Node& node);

  /// Returns the source from which an argument of type `type` is read at run time. The nodes that
  /// define the names in the argument must be compiled first.
  Source source(const Argument& argument, const c10::TypePtr& type);

  ValueTable& table() { return table_; }

 private:
  void use_schema(const Node& node, Step& step);
  void use_sym_operator(const Node& node, Step& step);
  void add_output(const Argument& output, Step& step);

  torch::Device device_;
  const AllowedOperators& allowed_;
  ValueTable table_;
};

/// Runs a step and writes the outputs of the step to their slots in `values`.
void run_step(const Step& step, Values& values);

}  // namespace attend::program
