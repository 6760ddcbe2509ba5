#pragma once

#include "program/allowed_operators.h"
#include "program/argument_source.h"
#include "program/exported_program.h"
#include "program/value_table.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attend::program {

struct Block;

/// Computes the outputs of a higher-order operator from the operator's graphs and the values of its
/// arguments.
using RunBlocks = std::function<Values(const std::vector<Block>& graphs, Values values)>;

/// A node of the program in executable form: with the operator, and with slots (see ValueTable)
/// instead of names. The data of a step is compact, since each step is read once per run.
struct Step {
  /// An argument that is the value of a slot.
  struct SlotArgument {
    std::uint32_t index;
    std::uint32_t slot;
    bool is_last_use = false;  ///< true if the value is not read afterwards
  };
  struct ComputedArgument {
    std::size_t index;
    Source source;
  };
  /// An output is a value, a list of tensors, or ignored.
  struct Output {
    std::size_t slot;   ///< first of `count` slots
    std::size_t count;  ///< number of tensors of a list, 1 for a value, 0 if ignored
    bool is_list;
  };

  /// Calls the operator: replaces the arguments on the stack by the outputs.
  std::function<void(torch::jit::Stack& stack)> call;
  Values arguments;  ///< constants, and empty values in place of other arguments
  std::vector<SlotArgument> slot_arguments;
  std::vector<ComputedArgument> computed_arguments;
  std::vector<Output> outputs;
  std::vector<std::size_t> last_used;  ///< slots to free after this step, besides moved values
  std::string target;
};

/// A graph in executable form, with its own slots.
struct Block {
  std::size_t num_slots = 0;
  bool calls_custom_operators = false;  // which may have no kernels but those for autograd
  std::vector<std::size_t> inputs;      // slots of the inputs
  std::vector<Step> steps;
  std::vector<Source> outputs;

  /// Sets `SlotArgument::is_last_use` and `Step::last_used`. Slots in `used_later` and slots that
  /// the outputs use are not freed.
  void set_last_uses(const std::vector<std::size_t>& used_later);
  /// Returns the outputs. `values` contains one value per input.
  Values run(Values values) const;
  /// Runs the steps on the values of the slots. Calls `after`, if it is set, after each step.
  void run_steps(Values& values, const std::function<void(const Step&)>& after = {}) const;
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

  /// Sets the fields of a block that follow from its inputs, steps and outputs. See
  /// `Block::set_last_uses` for `used_later`.
  void finish(Block& block, const std::vector<std::size_t>& used_later) const;

 private:
  void use_schema(const Node& node, const c10::FunctionSchema& schema, Step& step);
  void use_sym_operator(const Node& node, Step& step);
  void use_higher_order(const Node& node, Step& step);
  Block block(const Graph& graph) const;
  void add_output(const Argument& output, Step& step);

  torch::Device device_;
  const AllowedOperators& allowed_;
  ValueTable table_;
  bool calls_custom_operators_ = false;
};

}  // namespace attend::program
