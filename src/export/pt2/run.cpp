#include "export/pt2/run.h"

#include "attend/input_error.h"
#include "export/pt2/step.h"

#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <map>
#include <utility>

namespace attend::pt2 {
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

}  // namespace

struct Runner::Impl {
  Values start;                     // weights in their places
  std::vector<std::size_t> inputs;  // of the user, in order
  std::vector<Step> steps;
  std::vector<Source> outputs;
  std::vector<std::string> names;                              // of all places
  std::vector<std::pair<std::size_t, std::size_t>> mutations;  // from a place to one of the start
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
      impl_->inputs.push_back(place);
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
  std::vector<std::size_t> last_use;  // of each place: the step
  const auto uses = [&](std::size_t step) {
    last_use.resize(compiler.places().size(), step);
    for (const auto place : compiler.used()) last_use[place] = step;
    compiler.used().clear();
  };
  for (const auto& node : program.nodes) {
    impl_->steps.push_back(compiler.compile(node));
    uses(impl_->steps.size() - 1);
  }
  for (const auto& output : program.outputs) {
    if (output.kind == OutputKind::user) {
      impl_->outputs.push_back(compiler.source(output.value, c10::AnyType::get()));
      continue;
    }
    const auto* tensor = std::get_if<TensorName>(&output.value);
    if (tensor == nullptr) throw InputError("what a buffer or input changes to is no tensor");
    const auto place = compiler.places().find(tensor->name);
    compiler.used().push_back(place);
    const auto target = targets.find(output.target);
    if (target == targets.end()) {
      throw InputError(fmt::format("'{}', which is to change, is no input", output.target));
    }
    impl_->mutations.emplace_back(place, target->second);
    compiler.used().push_back(target->second);
  }
  uses(impl_->steps.size());
  for (std::size_t place = 0; place < last_use.size(); ++place) {
    if (last_use[place] < impl_->steps.size()) {
      impl_->steps[last_use[place]].last_used.push_back(place);
    }
  }
  impl_->names = compiler.places().names();
  impl_->start.resize(compiler.places().size());
  for (auto& [place, weight] : given) impl_->start[place] = std::move(weight);
}

Runner::~Runner() = default;

std::vector<torch::Tensor> Runner::run(const std::vector<torch::Tensor>& inputs,
                                       const Recorder& recorder) const {
  auto values = impl_->start;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[impl_->inputs[i]] = inputs[i];
  for (const auto& step : impl_->steps) {
    run_step(step, values);
    if (recorder) record(step, values, impl_->names, recorder);
    for (const auto place : step.last_used) values[place] = IValue();
  }
  std::vector<torch::Tensor> outputs;
  for (const auto& output : impl_->outputs) outputs.push_back(tensor_of(output(values)));
  for (const auto& [from, to] : impl_->mutations) {
    values[to].toTensor().copy_(values[from].toTensor());
  }
  return outputs;
}

}  // namespace attend::pt2
