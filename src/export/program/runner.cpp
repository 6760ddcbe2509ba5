#include "export/program/runner.h"

#include "attend/input_error.h"
#include "export/program/step.h"

#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace attend::program {
namespace {

using c10::IValue;

/// What a program returns: nothing becomes an undefined tensor, a number one without dimensions.
torch::Tensor tensor_of(const IValue& value) {
  if (value.isNone()) return {};
  if (value.isTensor()) return value.toTensor();
  if (value.isBool()) return at::scalar_tensor(value.toBool(), torch::kBool);
  if (value.isInt()) return at::scalar_tensor(value.toInt(), torch::kLong);
  if (value.isDouble()) return at::scalar_tensor(value.toDouble(), torch::kDouble);
  throw InputError(
      fmt::format("an output is a {}, expected a tensor or a number", value.tagKind()));
}

void record(const Step& step, const Values& values, const std::vector<std::string>& names,
            const Runner::Recorder& recorder) {
  for (const auto& places : step.results) {
    for (const auto place : places) {
      if (values[place].isTensor()) recorder(names[place], values[place].toTensor());
    }
  }
}

using Mutations = std::vector<std::pair<std::size_t, std::size_t>>;  // from a place to another

/// All at once: what outputs and later ones read is what was there before.
void mutate(const Mutations& mutations, const Values& values, std::vector<torch::Tensor>& outputs) {
  const auto is_target = [&](const torch::Tensor& tensor) {
    return std::any_of(mutations.begin(), mutations.end(), [&](const auto& mutation) {
      return tensor.is_alias_of(values[mutation.second].toTensor());
    });
  };
  const auto kept = [&](const torch::Tensor& tensor) {
    return tensor.defined() && is_target(tensor) ? tensor.clone() : tensor;
  };
  for (auto& output : outputs) output = kept(output);
  std::vector<torch::Tensor> sources;
  for (const auto& [from, to] : mutations) sources.push_back(kept(values[from].toTensor()));
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    values[mutations[i].second].toTensor().copy_(sources[i]);
  }
}

}  // namespace

struct Runner::Impl {
  struct UserInput {
    std::size_t place;
    bool is_number;
  };
  Values start;                   // weights in their places
  std::vector<UserInput> inputs;  // in order
  std::vector<Step> steps;
  std::vector<Source> outputs;
  std::vector<std::string> names;  // of all places
  Mutations mutations;

  /// Of places that neither outputs nor mutations read: these are read after all steps.
  void note_last_uses(std::size_t places) {
    constexpr auto kNever = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> last_use(places, kNever);  // the step
    const auto read = [&](const Source& source, std::size_t step) {
      for (const auto place : source.places) last_use[place] = step;
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const auto& result : steps[i].results) {
        for (const auto place : result) last_use[place] = i;  // maybe the only one
      }
      for (const auto& argument : steps[i].arguments) read(argument, i);
    }
    for (const auto& output : outputs) read(output, kNever);
    for (const auto& [from, to] : mutations) last_use[from] = last_use[to] = kNever;
    for (std::size_t place = 0; place < places; ++place) {
      if (last_use[place] != kNever) steps[last_use[place]].last_used.push_back(place);
    }
  }
};

Runner::Runner(const Program& program, const std::map<std::string, torch::Tensor>& weights,
               torch::Device device, const std::set<std::string>& namespaces)
    : impl_(std::make_unique<Impl>()) {
  Compiler compiler(device, namespaces);
  std::map<std::string, std::size_t> targets;  // what mutations name
  std::vector<std::pair<std::size_t, torch::Tensor>> given;
  for (const auto& input : program.inputs) {
    const auto place = compiler.places().give(input.name);
    if (input.kind == InputKind::user) {
      impl_->inputs.push_back({place, input.is_number});
      targets.emplace(input.name, place);
      continue;
    }
    const auto weight = weights.find(input.target);
    if (weight == weights.end()) {
      throw InputError(fmt::format("the weight '{}' is not in the archive", input.target));
    }
    given.emplace_back(place, weight->second);
    targets.emplace(input.target, place);
  }
  for (const auto& node : program.nodes) impl_->steps.push_back(compiler.compile(node));
  for (const auto& output : program.outputs) {
    if (output.kind == OutputKind::user) {
      impl_->outputs.push_back(compiler.source(output.value, c10::AnyType::get()));
      continue;
    }
    const auto* tensor = std::get_if<TensorName>(&output.value);
    if (tensor == nullptr) throw InputError("what a buffer or input changes to is no tensor");
    const auto target = targets.find(output.target);
    if (target == targets.end()) {
      throw InputError(fmt::format("'{}', which is to change, is no input", output.target));
    }
    impl_->mutations.emplace_back(compiler.places().find(tensor->name), target->second);
  }
  impl_->note_last_uses(compiler.places().size());
  impl_->names = compiler.places().names();
  impl_->start.resize(compiler.places().size());
  for (auto& [place, weight] : given) impl_->start[place] = std::move(weight);
}

Runner::~Runner() = default;

std::vector<torch::Tensor> Runner::run(const std::vector<torch::Tensor>& inputs,
                                       const Recorder& recorder) const {
  auto values = impl_->start;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto [place, is_number] = impl_->inputs[i];
    values[place] = is_number ? IValue(inputs[i].item<int64_t>()) : IValue(inputs[i]);
  }
  for (const auto& step : impl_->steps) {
    run_step(step, values);
    if (recorder) record(step, values, impl_->names, recorder);
    for (const auto place : step.last_used) values[place] = IValue();
  }
  std::vector<torch::Tensor> outputs;
  for (const auto& output : impl_->outputs) outputs.push_back(tensor_of(output.read(values)));
  if (!impl_->mutations.empty()) mutate(impl_->mutations, values, outputs);
  return outputs;
}

}  // namespace attend::program
