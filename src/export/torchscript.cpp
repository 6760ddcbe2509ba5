#include "attend/export/torchscript.h"

#include "attend/io/files.h"
#include "attend/nn/eval_scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace attend {
namespace {

namespace jit = torch::jit;
using Forward = std::function<torch::Tensor(const std::vector<torch::Tensor>&)>;

/// A type name may not begin with a digit, as the children of a ModuleList do.
std::string type_name(const std::string& child) {
  return std::isdigit(static_cast<unsigned char>(child.front())) ? "_" + child : child;
}

/// A scripted module with the same tree, names and tensors, but without methods.
jit::Module mirror(const torch::nn::Module& module, const std::string& name,
                   const std::shared_ptr<jit::CompilationUnit>& unit) {
  jit::Module mirrored(c10::QualifiedName(name), unit);
  mirrored.register_attribute("training", c10::BoolType::get(), /*v=*/false);
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    mirrored.register_parameter(item.key(), item.value(), /*is_buffer=*/false);
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    mirrored.register_buffer(item.key(), item.value());
  }
  for (const auto& item : module.named_children()) {
    const auto child = mirror(*item.value(), name + "." + type_name(item.key()), unit);
    mirrored.register_module(item.key(), child);
  }
  return mirrored;
}

jit::Module trace(const torch::nn::Module& module, const Forward& forward,
                  const std::vector<torch::Tensor>& inputs, std::vector<std::string> input_names) {
  for (auto i = input_names.size(); i < inputs.size(); ++i) {
    input_names.push_back(fmt::format("input{}", i));
  }
  auto unit = std::make_shared<jit::CompilationUnit>();
  auto scripted = mirror(module, "__torch__.attend.Exported", unit);
  const auto traced_forward = [&](const jit::Stack& stack) -> jit::Stack {
    std::vector<torch::Tensor> tensors;
    for (const auto& value : stack) tensors.push_back(value.toTensor());
    return {forward(tensors)};
  };
  const auto no_variable_names = [](const torch::Tensor&) { return std::string(); };
  const auto [state, outputs] = jit::tracer::trace(
      jit::Stack(inputs.begin(), inputs.end()), traced_forward, no_variable_names, /*strict=*/true,
      /*force_outplace=*/false, &scripted, input_names);
  auto* function =
      unit->create_function(c10::QualifiedName(*scripted.type()->name(), "forward"), state->graph);
  scripted.type()->addMethod(function);
  return scripted;
}

/// Compares file and module on one set of inputs; returns the largest difference.
double compare(jit::Module& file, const Forward& forward, const std::vector<torch::Tensor>& inputs,
               double tolerance) {
  const auto shape = fmt::format("({})", fmt::join(inputs.at(0).sizes(), ", "));
  const auto expected = forward(inputs);
  torch::Tensor found;
  try {
    found = file.forward(jit::Stack(inputs.begin(), inputs.end())).toTensor();
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("the exported file fails on an input of shape {}, which the module takes, so "
                    "its forward freezes a size: {}",
                    shape, error.what()));
  }
  if (found.sizes() != expected.sizes()) {
    throw std::runtime_error(fmt::format(
        "the exported file returns shape ({}) for an input of shape {}, the module ({})",
        fmt::join(found.sizes(), ", "), shape, fmt::join(expected.sizes(), ", ")));
  }
  if (found.numel() == 0) return 0.0;
  const auto difference = (found - expected).abs();
  // Written so that a NaN fails, too.
  if (!(difference <= tolerance * (1 + expected.abs())).all().item<bool>()) {
    throw std::runtime_error(fmt::format(
        "the exported file differs from the module by {:.3g} for an input of shape {}, expected "
        "at most {:.3g}",
        difference.max().item<double>(), shape, tolerance));
  }
  return difference.max().item<double>();
}

}  // namespace

ExportReport export_torchscript(torch::nn::Module& module, const Forward& forward,
                                const std::vector<torch::Tensor>& example_inputs,
                                const std::filesystem::path& path,
                                const TorchScriptOptions& options) {
  TORCH_CHECK_VALUE(!example_inputs.empty(), "example_inputs (0) must hold at least one tensor");
  TORCH_CHECK_VALUE(!options.check_inputs.empty(),
                    "check_inputs (0) must hold at least one set of inputs of another shape");
  TORCH_CHECK_VALUE(options.input_names.size() <= example_inputs.size(), "input_names (",
                    options.input_names.size(), ") must not be more than the inputs (",
                    example_inputs.size(), ")");
  const EvalScope eval(module);
  const torch::NoGradGuard no_grad;

  ExportReport report;
  // In memory first: a file would give its name to the archive's folder.
  std::stringstream bytes;
  trace(module, forward, example_inputs, options.input_names)
      .save(bytes, {options.extra_files.begin(), options.extra_files.end()});
  auto file = jit::load(bytes);
  file.eval();
  auto checks = options.check_inputs;
  checks.insert(checks.begin(), example_inputs);
  for (const auto& inputs : checks) {
    const double difference = compare(file, forward, inputs, options.tolerance);
    report.max_difference = std::max(report.max_difference, difference);
    report.checked_shapes.push_back(inputs.at(0).sizes().vec());
  }
  replace_file(path, bytes.view());
  return report;
}

}  // namespace attend
