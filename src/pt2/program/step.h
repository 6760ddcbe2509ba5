#pragma once

#include "pt2/program/argument_source.h"
#include "pt2/program/exported_program.h"
#include "pt2/program/sym_operators.h"
#include "pt2/program/value_table.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attend::program {

/// A node with its operator and slots resolved.
struct Step {
  std::string target;
  std::optional<c10::OperatorHandle> handle;  // nullopt: an operator on SymInts
  SymOperator sym_operator = nullptr;
  std::vector<Source> arguments;
  std::vector<std::vector<std::size_t>> outputs;  // slots of each, several for a list
  std::vector<bool> is_list;                      // by output
  std::vector<std::size_t> last_used;             // slots to free after this step
};

/// Compiles the nodes of a program in order.
class Compiler {
 public:
  /// Only operators of `namespaces` are allowed.
  Compiler(torch::Device device, const std::set<std::string>& namespaces)
      : device_(device), namespaces_(namespaces) {}

  /// Throws InputError, naming the node, if it is invalid.
  Step compile(const Node& node);

  /// Returns the source of an argument of type `type`. Call it after the nodes that define its
  /// names are compiled.
  Source source(const Argument& argument, const c10::TypePtr& type);

  ValueTable& table() { return table_; }

 private:
  void use_schema(const Node& node, Step& step);
  void use_sym_operator(const Node& node, Step& step);
  void add_output(const Argument& output, Step& step);

  torch::Device device_;
  const std::set<std::string>& namespaces_;
  ValueTable table_;
};

/// Runs a step and writes its outputs to their slots.
void run_step(const Step& step, Values& values);

}  // namespace attend::program
