#include "attend/pt2/pt2_program.h"

#include "attend/input_error.h"
#include "io/zip_archive.h"
#include "program/input_checks.h"
#include "program/runner.h"
#include "pt2/read_archive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace attend {

struct Pt2Program::Impl {
  program::InputChecks inputs;
  program::Runner runner;
  std::vector<std::string> output_names;
  std::map<std::string, torch::Tensor> state;
};

std::vector<torch::Tensor> Pt2Program::forward(const std::vector<torch::Tensor>& inputs) const {
  impl_->inputs.check(inputs);
  return impl_->runner.run(inputs);
}

std::map<std::string, torch::Tensor> Pt2Program::forward_named(
    const std::map<std::string, torch::Tensor>& inputs) const {
  const auto names = impl_->inputs.names();
  std::vector<torch::Tensor> ordered;
  for (const auto& name : names) {
    const auto input = inputs.find(name);
    if (input != inputs.end()) ordered.push_back(input->second);
  }
  if (ordered.size() != names.size() || ordered.size() != inputs.size()) {
    std::vector<std::string> found;
    for (const auto& [name, input] : inputs) found.push_back(name);
    throw InputError(fmt::format("expected the inputs {}, found {}", fmt::join(names, ", "),
                                 fmt::join(found, ", ")));
  }
  const auto outputs = forward(ordered);
  std::map<std::string, torch::Tensor> named;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& name = impl_->output_names[i];
    if (!named.emplace(name, outputs[i]).second) {
      throw InputError(fmt::format("more than one output has the name '{}'", name));
    }
  }
  return named;
}

std::vector<std::string> Pt2Program::output_names() const {
  return impl_->output_names;
}

std::vector<std::string> Pt2Program::input_names() const {
  return impl_->inputs.names();
}

std::map<std::string, torch::Tensor> Pt2Program::state_dict() const {
  return impl_->state;
}

Pt2Program load_pt2(const std::filesystem::path& path, const Pt2LoadOptions& options) {
  return with_source(path.string(), [&] {
    const auto [model, program, weights] =
        pt2::read_archive(ZipArchive(path), options.device, options.model);
    std::map<std::string, torch::Tensor> state;
    for (const auto& input : program.inputs) {
      if (!program::is_state(input)) continue;
      const auto weight = weights.find(input.target);
      if (weight != weights.end()) state.insert(*weight);
    }
    return with_source(model, [&, &program = program, &weights = weights] {
      // The Impl is constructed in place, since Runner is neither copyable nor movable.
      return Pt2Program(std::shared_ptr<const Pt2Program::Impl>(new Pt2Program::Impl{
          .inputs = {program, options.device},
          .runner = {program, weights, options.device, {options.namespaces, options.operators}},
          .output_names = program.output_names,
          .state = std::move(state)}));
    });
  });
}

}  // namespace attend
