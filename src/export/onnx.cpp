#include "attend/export/onnx.h"

#include "export/export_scope.h"
#include "export/numbered_names.h"
#include "export/onnx/serialize.h"
#include "export/onnx/translate.h"
#include "export/program/runner.h"
#include "export/program/traced_program.h"
#include "export/prove.h"
#include "export/traced_calls.h"
#include "io/files.h"
#include "io/utf8.h"

#include <tuple>

namespace attend {
namespace {

/// The names of the targets that stand for the same tensor as an earlier one.
std::map<std::string, std::string> tied(const program::TracedProgram& traced) {
  using Identity = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>, int>;
  std::map<Identity, std::string> first;
  std::map<std::string, std::string> same;
  for (const auto& input : traced.program.inputs) {
    if (input.kind == program::InputKind::user) continue;
    const auto& tensor = traced.weights.at(input.target);
    if (tensor.numel() == 0) continue;  // they have no address
    const Identity identity(tensor.const_data_ptr(), tensor.sizes().vec(), tensor.strides().vec(),
                            static_cast<int>(tensor.scalar_type()));
    const auto [found, is_first] = first.emplace(identity, input.target);
    if (!is_first) same.emplace(input.target, found->second);
  }
  return same;
}

/// The names of the dynamic dimensions by the expressions that the program has for them.
std::map<std::string, std::string> names_of_sizes(const program::Program& program,
                                                  const ExportOptions& options) {
  std::vector<const program::Input*> inputs;
  for (const auto& input : program.inputs) {
    if (input.kind == program::InputKind::user) inputs.push_back(&input);
  }
  std::map<std::string, std::string> names;
  for (const auto& dynamic : options.dynamic) {
    const auto& meta = program.tensors.at(inputs.at(dynamic.input)->name);
    const auto& size = meta.sizes.at(static_cast<std::size_t>(dynamic.dimension));
    if (!size.expression.empty()) names.emplace(size.expression, dynamic.name);
  }
  return names;
}

/// A name of a file stands for one thing; numbers are those of the values between.
void check_names(const onnx::Model& model) {
  std::map<std::string, const char*> met;
  const auto check = [&](const std::vector<onnx::ValueInfo>& infos, const char* what) {
    for (const auto& info : infos) {
      TORCH_CHECK_VALUE(info.name.find_first_not_of("0123456789") != std::string::npos,
                        "the name of an ", what, " must be no number, found '", info.name, "'");
      const auto [other, is_new] = met.emplace(info.name, what);
      TORCH_CHECK_VALUE(is_new, "the name '", info.name, "' is that of an ", other->second,
                        " and of an ", what, ", they must differ");
    }
  };
  check(model.inputs, "input");
  check(model.outputs, "output");
  check(model.weights, "initializer");
}

/// The reasons, with who called the operators: found by tracing once more, since noting it costs
/// time.
std::string text_of(const onnx::Untranslatable& error, const torch::nn::Module& module,
                    const Forward& forward, const std::vector<torch::Tensor>& inputs) {
  const auto calls = trace_calls(module, forward, inputs);
  std::string text;
  for (const auto& reason : error.reasons) {
    if (!text.empty()) text += "; ";
    text += reason.text + calls.sites.text_of(*calls.nodes.at(reason.node));
  }
  return text;
}

}  // namespace

ExportReport export_onnx(torch::nn::Module& module, const Forward& forward,
                         const std::vector<torch::Tensor>& example_inputs,
                         const std::filesystem::path& path, const ExportOptions& options) {
  ExportGuard scope(module, example_inputs, options);
  for (const auto& [name, content] : options.extra_files) check_utf8(content, name);
  const auto traced = program::trace_program(module, forward, example_inputs, options,
                                             program::UnfittedSizes::left_open);
  for (const auto& tensor : traced.constants()) scope.add_constant(tensor);
  TORCH_CHECK_VALUE(!traced.program.outputs.empty(),
                    "an ONNX file needs an output, forward returns none");
  const auto output_names =
      numbered_names(options.output_names, traced.program.outputs.size(), "output");
  TORCH_CHECK_VALUE(output_names.size() == traced.program.outputs.size(), "output_names (",
                    output_names.size(), ") must not be more than the outputs (",
                    traced.program.outputs.size(), ")");
  onnx::Model model;
  try {
    model = onnx::translate(traced.program, tied(traced), output_names);
  } catch (const onnx::Untranslatable& error) {
    throw std::runtime_error(text_of(error, module, forward, example_inputs));
  }
  check_names(model);
  scope.restore();
  // Of its own, so that it does not see what forward does to the module's.
  std::map<std::string, torch::Tensor> weights;
  for (const auto& [name, weight] : traced.weights) weights.emplace(name, weight.clone());
  const program::Runner runner(traced.program, weights, example_inputs.front().device(), {"aten"});
  const auto report = prove(
      scope, module, [&](const auto& inputs) { return runner.run(inputs); }, forward,
      example_inputs, options);
  replace_file(path, onnx::serialize(model, traced.weights, names_of_sizes(traced.program, options),
                                     options.extra_files));
  return report;
}

}  // namespace attend
