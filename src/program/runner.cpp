#include "program/runner.h"

#include "attend/input_error.h"
#include "program/step.h"

#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace attend::program {
namespace {

using c10::IValue;

/// Converts an output of the program to a tensor: None to an undefined tensor, a number to a
/// 0-dimensional tensor.
torch::Tensor tensor_of(const IValue& value) {
  if (value.isNone()) return {};
  if (value.isTensor()) return value.toTensor();
  if (value.isBool()) return at::scalar_tensor(value.toBool(), torch::kBool);
  if (value.isInt()) return at::scalar_tensor(value.toInt(), torch::kLong);
  if (value.isDouble()) return at::scalar_tensor(value.toDouble(), torch::kDouble);
  throw InputError(
      fmt::format("expected a tensor, a number or None as output, found {}", value.tagKind()));
}

void record(const Step& step, const Values& values, const std::vector<std::string>& names,
            const Runner::Recorder& recorder) {
  for (const auto& slots : step.outputs) {
    for (const auto slot : slots) recorder(names[slot], values[slot]);
  }
}

/// Pairs of slots. The first slot contains a new value. The second slot contains the target: the
/// tensor that the new value overwrites.
using Mutations = std::vector<std::pair<std::size_t, std::size_t>>;

/// Applies all mutations at once. Outputs and new values that share memory with a target are copied
/// first, so that they keep the values from before the mutations.
void mutate(const Mutations& mutations, const Values& values, std::vector<torch::Tensor>& outputs) {
  const auto is_target = [&](const torch::Tensor& tensor) {
    return std::any_of(mutations.begin(), mutations.end(), [&](const auto& mutation) {
      return tensor.is_alias_of(values[mutation.second].toTensor());
    });
  };
  const auto copy_if_target = [&](const torch::Tensor& tensor) {
    return tensor.defined() && is_target(tensor) ? tensor.clone() : tensor;
  };
  for (auto& output : outputs) output = copy_if_target(output);
  std::vector<torch::Tensor> sources;
  for (const auto& [from, to] : mutations)
    sources.push_back(copy_if_target(values[from].toTensor()));
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    values[mutations[i].second].toTensor().copy_(sources[i]);
  }
}

}  // namespace

struct Runner::Impl {
  Block block;
  std::vector<bool> is_sym_int;    // true for each user input that is a SymInt
  std::vector<std::string> names;  // names of the values, indexed by slot
  Mutations mutations;
};

Runner::Runner(const ExportedProgram& program, const std::map<std::string, torch::Tensor>& weights,
               torch::Device device, const AllowedOperators& allowed)
    : impl_(std::make_unique<Impl>()) {
  Compiler compiler(device, allowed);
  auto& block = impl_->block;
  std::map<std::string, std::size_t> targets;  // slots of mutation targets
  std::vector<std::pair<std::size_t, torch::Tensor>> initial;
  for (const auto& input : program.inputs) {
    const auto slot = compiler.table().define(input.name);
    if (input.kind == InputKind::user) {
      block.inputs.push_back(slot);
      impl_->is_sym_int.push_back(input.is_sym_int);
      targets.emplace(input.name, slot);
      continue;
    }
    const auto weight = weights.find(input.target);
    if (weight == weights.end()) {
      throw InputError(fmt::format("the archive has no weight '{}'", input.target));
    }
    initial.emplace_back(slot, weight->second);
    targets.emplace(input.target, slot);
  }
  for (const auto& node : program.nodes) block.steps.push_back(compiler.compile(node));
  std::vector<std::size_t> mutated;
  for (const auto& output : program.outputs) {
    if (output.kind == OutputKind::user) {
      block.outputs.push_back(compiler.source(output.value, c10::AnyType::get()));
      continue;
    }
    const auto* tensor = std::get_if<TensorName>(&output.value);
    if (tensor == nullptr)
      throw InputError(fmt::format("the output that mutates '{}' must be a tensor", output.target));
    const auto target = targets.find(output.target);
    if (target == targets.end()) {
      throw InputError(
          fmt::format("the mutation target '{}' is not an input or buffer", output.target));
    }
    impl_->mutations.emplace_back(compiler.table().find(tensor->name), target->second);
    mutated.insert(mutated.end(), {impl_->mutations.back().first, target->second});
  }
  block.start.resize(compiler.table().size());
  block.set_last_uses(mutated);
  impl_->names = compiler.table().names();
  for (auto& [slot, weight] : initial) block.start[slot] = std::move(weight);
}

Runner::~Runner() = default;

std::vector<torch::Tensor> Runner::run(const std::vector<torch::Tensor>& inputs,
                                       const Recorder& recorder) const {
  const auto& block = impl_->block;
  auto values = block.start;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[block.inputs[i]] =
        impl_->is_sym_int[i] ? IValue(inputs[i].item<int64_t>()) : IValue(inputs[i]);
  }
  for (const auto& step : block.steps) {
    run_step(step, values);
    if (recorder) record(step, values, impl_->names, recorder);
    for (const auto slot : step.last_used) values[slot] = IValue();
  }
  std::vector<torch::Tensor> outputs;
  for (const auto& output : block.outputs) outputs.push_back(tensor_of(output.read(values)));
  if (!impl_->mutations.empty()) mutate(impl_->mutations, values, outputs);
  return outputs;
}

}  // namespace attend::program
