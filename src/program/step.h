#pragma once

#include "program/allowed_operators.h"
#include "program/argument_source.h"
#include "program/exported_program.h"
#include "program/sym_operators.h"
#include "program/value_table.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attend::program {

/// Computes the product of an operator, if `apply_linear` has a faster kernel for these arguments
/// than LibTorch. Otherwise, returns std::nullopt.
using FastProduct = std::optional<torch::Tensor> (*)(const torch::jit::Stack& arguments);

struct Block;

/// Computes the outputs of a higher-order operator from the operator's graphs and the values of its
/// arguments.
using RunBlocks = std::function<Values(const std::vector<Block>& graphs, Values values)>;

/// A node of the program in executable form: with the operator, and with slots (see ValueTable)
/// instead of names.
struct Step {
  std::string target;
  std::optional<c10::OperatorHandle> handle;  // of an operator of the dispatcher
  SymOperator sym_operator = nullptr;
  FastProduct fast_product = nullptr;  // null for operators other than products
  RunBlocks run_blocks;                // of a higher-order operator
  std::vector<Block> blocks;           // graphs of a higher-order operator
  std::vector<Source> arguments;
  /// Slots of each output. An output that is a list of tensors has one slot per tensor.
  std::vector<std::vector<std::size_t>> outputs;
  std::vector<bool> is_list;           // true for each output that is a list of tensors
  std::vector<std::size_t> last_used;  // slots to free after this step
};

/// A graph in executable form, with its own slots.
struct ATTEND_API Block {
  Values start;                     // values before the first step: the weights in their slots
  std::vector<std::size_t> inputs;  // slots of the inputs
  std::vector<Step> steps;
  std::vector<Source> outputs;

  /// Sets `Step::last_used`. Slots in `used_later` and slots that the outputs use are not freed.
  void set_last_uses(const std::vector<std::size_t>& used_later);
  /// Returns the outputs. `values` contains one value per input.
  Values run(Values values) const;
};

/// Converts the nodes of a graph to steps, in the order of the nodes.
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
  void use_higher_order(const Node& node, Step& step);
  Block block(const Graph& graph) const;
  void add_output(const Argument& output, Step& step);

  torch::Device device_;
  const AllowedOperators& allowed_;
  ValueTable table_;
};

/// Runs a step and writes the outputs of the step to their slots in `values`.
void run_step(const Step& step, Values& values);

}  // namespace attend::program
