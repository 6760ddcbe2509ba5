#pragma once

#include "export/program/argument_source.h"
#include "export/program/number_operators.h"
#include "export/program/places.h"
#include "export/program/program.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attend::program {

/// A node whose operator was found and whose names are places.
struct Step {
  std::string target;
  std::optional<c10::OperatorHandle> handle;  // none: an operator on numbers
  NumberOperator numbers = nullptr;
  std::vector<Source> arguments;
  std::vector<std::vector<std::size_t>> results;  // the places of each, several for a list
  std::vector<bool> lists;                        // which of them are lists
  std::vector<std::size_t> last_used;             // what no later step needs
};

/// Makes steps of one node after the other.
class Compiler {
 public:
  /// Operators of other `namespaces` are refused.
  Compiler(torch::Device device, const std::set<std::string>& namespaces)
      : device_(device), namespaces_(namespaces) {}

  /// Throws InputError, naming the node, for what cannot run.
  Step compile(const Node& node);

  /// Of an argument of a `type`, after all nodes that it needs.
  Source source(const Argument& argument, const c10::TypePtr& type);

  Places& places() { return places_; }

 private:
  void use_schema(const Node& node, Step& step);
  void use_numbers(const Node& node, Step& step);
  void add_result(const Argument& output, Step& step);

  torch::Device device_;
  const std::set<std::string>& namespaces_;
  Places places_;
};

/// Runs a step, and puts what it gives in its places.
void run_step(const Step& step, Values& values);

}  // namespace attend::program
