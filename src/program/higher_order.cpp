#include "program/higher_order.h"

#include "attend/input_error.h"
#include "ops/autocast.h"
#include "program/schema_enums.h"
#include "program/target.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace attend::program {
namespace {

using c10::IValue;

/// The inputs of a node, read from the first to the last.
class Inputs {
 public:
  explicit Inputs(const Node& node) : inputs_(node.inputs), num_outputs_(node.outputs.size()) {}

  std::size_t num_outputs() const { return num_outputs_; }

  const Argument& next() {
    if (at_ == inputs_.size()) {
      throw InputError(fmt::format("expected more than {} inputs besides the graphs", at_));
    }
    return inputs_[at_++].value;
  }
  template <typename T>
  const T& next(const char* what) {
    const auto* value = std::get_if<T>(&next());
    if (value == nullptr) throw InputError(fmt::format("expected {} as input {}", what, at_ - 1));
    return *value;
  }
  /// Appends a list of tensors to `operands`. Returns its length.
  std::size_t next_tensors(std::vector<Argument>& operands) {
    const auto& tensors = next<std::vector<TensorName>>("a list of tensors");
    operands.insert(operands.end(), tensors.begin(), tensors.end());
    return tensors.size();
  }
  /// Returns all inputs that are not yet read.
  std::vector<Argument> rest() {
    std::vector<Argument> all;
    while (at_ < inputs_.size()) all.push_back(next());
    return all;
  }

 private:
  const std::vector<NamedArgument>& inputs_;
  std::size_t num_outputs_;
  std::size_t at_ = 0;
};

bool is_true(const IValue& value) {
  return value.isTensor() ? value.toTensor().item<bool>() : value.toBool();
}

/// torch.cond(predicate, true_graph, false_graph, operands)
HigherOrderOperator cond(Inputs& inputs) {
  const auto run = [](const std::vector<Block>& graphs, Values values) {
    const auto graph = is_true(values.front()) ? 0 : 1;
    values.erase(values.begin());
    return graphs[graph].run(std::move(values));
  };
  HigherOrderOperator cond{
      .run = run, .predicate = {inputs.next()}, .operands = {}, .graph_outputs = {0, 0}};
  inputs.next_tensors(cond.operands);
  return cond;
}

/// while_loop(condition_graph, body_graph, carried, additional)
HigherOrderOperator while_loop(Inputs& inputs) {
  HigherOrderOperator loop{.run = {}, .predicate = {}, .operands = {}, .graph_outputs = {1, 0}};
  const auto carried = inputs.next_tensors(loop.operands);
  if (inputs.num_outputs() != carried) {
    throw InputError(fmt::format("expected {} outputs, one per carried value, found {}", carried,
                                 inputs.num_outputs()));
  }
  inputs.next_tensors(loop.operands);
  loop.run = [carried](const std::vector<Block>& graphs, Values values) {
    while (is_true(graphs[0].run(values).at(0))) {
      auto next = graphs[1].run(values);
      std::move(next.begin(), next.end(), values.begin());
    }
    values.resize(carried);
    return values;
  };
  return loop;
}

/// scan(graph, carried, sequences, additional): calls the graph with the carried values and one
/// element of each sequence, which is a tensor (T, ...). The graph returns the next carried values,
/// then values that are stacked over T.
RunBlocks scan_of(std::size_t carried, std::size_t sequences) {
  return [=](const std::vector<Block>& graphs, const Values& values) {
    const auto length = sequences == 0 ? 0 : values[carried].toTensor().size(0);
    if (length == 0) throw InputError("expected a sequence of at least 1 element, found 0");
    auto arguments = values;
    Values outputs;
    std::vector<std::vector<torch::Tensor>> stacks;
    for (int64_t t = 0; t < length; ++t) {
      for (auto i = carried; i < carried + sequences; ++i) {
        arguments[i] = values[i].toTensor().select(0, t);
      }
      outputs = graphs[0].run(arguments);
      std::copy_n(outputs.begin(), carried, arguments.begin());
      stacks.resize(outputs.size() - carried);
      for (std::size_t i = 0; i < stacks.size(); ++i) {
        stacks[i].push_back(outputs[carried + i].toTensor());
      }
    }
    for (std::size_t i = 0; i < stacks.size(); ++i) outputs[carried + i] = at::stack(stacks[i]);
    return outputs;
  };
}

HigherOrderOperator scan(Inputs& inputs) {
  HigherOrderOperator scan{.run = {}, .predicate = {}, .operands = {}, .graph_outputs = {0}};
  const auto carried = inputs.next_tensors(scan.operands);
  if (inputs.num_outputs() < carried) {
    throw InputError(fmt::format("expected at least {} outputs, one per carried value, found {}",
                                 carried, inputs.num_outputs()));
  }
  scan.run = scan_of(carried, inputs.next_tensors(scan.operands));
  inputs.next_tensors(scan.operands);
  return scan;
}

/// map(graph, sequences, additional): `scan` without carried values
HigherOrderOperator map(Inputs& inputs) {
  HigherOrderOperator map{.run = {}, .predicate = {}, .operands = {}, .graph_outputs = {0}};
  map.run = scan_of(0, inputs.next_tensors(map.operands));
  inputs.next_tensors(map.operands);
  return map;
}

/// torch.set_grad_enabled(enabled) around graph(operands...)
HigherOrderOperator grad_mode(Inputs& inputs) {
  const auto run = [enabled = inputs.next<bool>("true or false")](const std::vector<Block>& graphs,
                                                                  Values values) {
    const c10::AutoGradMode guard(enabled);
    // A block without gradients, which may contain this one, excludes the kernels for autograd.
    auto keys = c10::impl::tls_local_dispatch_key_set();
    if (enabled) keys.excluded_ = keys.excluded_ - c10::autograd_dispatch_keyset;
    const c10::impl::ForceDispatchKeyGuard keys_guard(keys);
    return graphs[0].run(std::move(values));
  };
  return {.run = run, .predicate = {}, .operands = inputs.rest(), .graph_outputs = {0}};
}

/// torch.autocast(device, dtype, enabled, cache_enabled) around graph(operands...)
HigherOrderOperator autocast(Inputs& inputs) {
  const auto& name = inputs.next<std::string>("the type of a device");
  if (name != "cpu" && name != "cuda") {
    throw InputError(fmt::format("expected autocast for cpu or cuda, found '{}'", name));
  }
  const auto device = name == "cpu" ? torch::kCPU : torch::kCUDA;
  const auto& dtype = inputs.next();
  const auto* known = std::get_if<SchemaDtype>(&dtype);
  if (known == nullptr && !std::holds_alternative<None>(dtype)) {
    throw InputError("expected a dtype or None as input 1");
  }
  const AutocastState state{.enabled = inputs.next<bool>("true or false"),
                            .dtype = known == nullptr ? at::autocast::get_autocast_dtype(device)
                                                      : dtype_of(known->value)};
  inputs.next<bool>("true or false");  // The cache has no influence on results.
  const auto run = [device, state](const std::vector<Block>& graphs, Values values) {
    const AutocastGuard guard(device, state);
    return graphs[0].run(std::move(values));
  };
  return {.run = run, .predicate = {}, .operands = inputs.rest(), .graph_outputs = {0}};
}

}  // namespace

HigherOrderOperator higher_order_operator(const Node& node) {
  static const std::map<std::string_view, HigherOrderOperator (*)(Inputs&)> all{
      {"cond", cond},
      {"while_loop", while_loop},
      {"scan", scan},
      {"map_impl", map},
      {"wrap_with_set_grad_enabled", grad_mode},
      {"wrap_with_autocast", autocast}};
  const auto found = all.find(std::string_view(node.target).substr(kHigherOrderOperators.size()));
  if (found == all.end()) throw InputError("the higher-order operator is not supported");
  Inputs inputs(node);
  auto made = found->second(inputs);
  if (const auto extra = inputs.rest(); !extra.empty()) {
    throw InputError(fmt::format("expected {} inputs besides the graphs, found {}",
                                 node.inputs.size() - extra.size(), node.inputs.size()));
  }
  return made;
}

}  // namespace attend::program
