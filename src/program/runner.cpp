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
  for (const auto& output : step.outputs) {
    for (auto slot = output.slot; slot < output.slot + output.count; ++slot) {
      recorder(names[slot], values[slot]);
    }
  }
}

/// Pairs of sources: a new value, and the target, which is the tensor that the new value
/// overwrites.
using Mutations = std::vector<std::pair<Source, Source>>;

/// Applies all mutations at once. Outputs and new values that share memory with a target are copied
/// first, so that they keep the values from before the mutations.
void mutate(const Mutations& mutations, const Values& values, std::vector<torch::Tensor>& outputs) {
  const auto is_target = [&](const torch::Tensor& tensor) {
    return std::any_of(mutations.begin(), mutations.end(), [&](const auto& mutation) {
      return tensor.is_alias_of(mutation.second.read(values).toTensor());
    });
  };
  const auto copy_if_target = [&](const torch::Tensor& tensor) {
    return tensor.defined() && is_target(tensor) ? tensor.clone() : tensor;
  };
  for (auto& output : outputs) output = copy_if_target(output);
  std::vector<torch::Tensor> sources;
  for (const auto& [from, to] : mutations)
    sources.push_back(copy_if_target(from.read(values).toTensor()));
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    mutations[i].second.read(values).toTensor().copy_(sources[i]);
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
  std::map<std::string, Source> targets;  // sources of mutation targets
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::user) {
      block.inputs.push_back(compiler.table().define(input.name));
      impl_->is_sym_int.push_back(input.is_sym_int);
      targets.emplace(input.name, compiler.table().find(input.name));
      continue;
    }
    const auto weight = weights.find(input.target);
    if (weight == weights.end()) {
      throw InputError(fmt::format("the archive has no weight '{}'", input.target));
    }
    compiler.table().define(input.name, weight->second);
    targets.emplace(input.target, compiler.table().find(input.name));
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
    for (const auto& source : {impl_->mutations.back().first, target->second}) {
      mutated.insert(mutated.end(), source.slots.begin(), source.slots.end());
    }
  }
  compiler.finish(block, mutated);
  impl_->names = compiler.table().names();
}

Runner::~Runner() = default;

std::vector<torch::Tensor> Runner::run(const std::vector<torch::Tensor>& inputs,
                                       const Recorder& recorder) const {
  const auto& block = impl_->block;
  Values values(block.num_slots);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[block.inputs[i]] =
        impl_->is_sym_int[i] ? IValue(inputs[i].item<int64_t>()) : IValue(inputs[i]);
  }
  block.run_steps(values,
                  recorder ? [&](const Step& step) { record(step, values, impl_->names, recorder); }
                           : std::function<void(const Step&)>());
  std::vector<torch::Tensor> outputs;
  for (const auto& output : block.outputs) outputs.push_back(tensor_of(output.read(values)));
  if (!impl_->mutations.empty()) mutate(impl_->mutations, values, outputs);
  return outputs;
}

}  // namespace attend::program
