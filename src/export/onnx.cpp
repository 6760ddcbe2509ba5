#include "attend/export/onnx.h"

#include "attend/export/onnx_contents.h"
#include "attend/io/utf8.h"
#include "export/check_names.h"
#include "export/export_guard.h"
#include "export/nested.h"
#include "export/numbered_names.h"
#include "export/onnx/opset.h"
#include "export/onnx/serialize.h"
#include "export/onnx/translate.h"
#include "export/program/checked_program.h"
#include "export/program/traced_program.h"
#include "export/traced_calls.h"
#include "export/verify.h"
#include "io/files.h"
#include "program/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <tuple>
#include <variant>

namespace attend {
namespace {

/// Returns a map from each tied weight to the first weight with the same data pointer, sizes,
/// strides and dtype. The first weight is not a key of the map. Weights are identified by name,
/// such as "decoder.norm.weight" (`Input::target`).
std::map<std::string, std::string> tied_weights(const program::TracedProgram& traced) {
  using Identity = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>, int>;
  std::map<Identity, std::string> first;
  std::map<std::string, std::string> tied;
  for (const auto& input : traced.program.inputs) {
    if (input.kind == program::InputKind::user) continue;
    const auto& tensor = traced.weights.at(input.target);
    if (tensor.numel() == 0) continue;  // empty tensors have no data pointer
    const Identity identity(tensor.const_data_ptr(), tensor.sizes().vec(), tensor.strides().vec(),
                            static_cast<int>(tensor.scalar_type()));
    const auto [found, is_first] = first.emplace(identity, input.target);
    if (!is_first) tied.emplace(input.target, found->second);
  }
  return tied;
}

/// Returns a map from the symbolic expression of each dynamic dimension to the dimension's name in
/// `options`.
onnx::DimensionNames dimension_names(const program::ExportedProgram& program,
                                     const ExportOptions& options) {
  std::vector<const program::Input*> inputs;
  for (const auto& input : program.inputs) {
    if (input.kind == program::InputKind::user) inputs.push_back(&input);
  }
  onnx::DimensionNames names;
  for (const auto& dynamic : options.dynamic) {
    const auto& meta = program.tensors.at(inputs.at(dynamic.input)->name);
    const auto& size = meta.sizes.at(static_cast<std::size_t>(dynamic.dimension));
    if (!size.expression.empty()) names.emplace(size.expression, dynamic.name);
  }
  return names;
}

/// Checks that the names of inputs, outputs and initializers are unique, as ONNX requires.
void check_names(const onnx::Model& model) {
  std::map<std::string, const char*> seen;
  const auto check = [&](const std::vector<onnx::ValueInfo>& infos, const char* what) {
    for (const auto& info : infos) {
      const auto [other, is_new] = seen.emplace(info.name, what);
      TORCH_CHECK_VALUE(is_new,
                        "the names of inputs, outputs and initializers must be unique, found '",
                        info.name, "' as ", other->second, " and ", what);
    }
  };
  check(model.inputs, "input");
  check(model.outputs, "output");
  check(model.weights, "initializer");
}

/// Returns the call in the trace from which a node was made; nullptr if there is none. The program
/// has nodes that `lift_sizes` added: of the calls of an operator, those before the node count.
const torch::jit::Node* call_of(const program::ExportedProgram& program, std::size_t node,
                                const TracedCalls& calls) {
  const auto& target = program.nodes.at(node).target;
  const auto end = program.nodes.begin() + static_cast<std::ptrdiff_t>(node);
  auto earlier = std::count_if(program.nodes.begin(), end,
                               [&](const auto& other) { return other.target == target; });
  for (const auto* call : calls.nodes) {
    const auto* schema = call->maybeSchema();
    if (schema != nullptr &&
        program::target_of(schema->name(), schema->overload_name()) == target && earlier-- == 0) {
      return call;
    }
  }
  return nullptr;
}

/// Returns the reasons in `error`, each with the call site of the unsupported operator, and the
/// remedy. Traces again, since the first trace does not record call sites (recording is slow).
std::string message_of(const onnx::UnsupportedOperatorsError& error,
                       const program::ExportedProgram& program, const torch::nn::Module& module,
                       const Forward& forward, const std::vector<torch::Tensor>& inputs) {
  const auto calls = trace_calls(module, forward, inputs);
  std::string text;
  for (const auto& reason : error.reasons) {
    if (!text.empty()) text += "; ";
    const auto* call = call_of(program, reason.node, calls);
    text += reason.text + (call == nullptr ? "" : calls.sites.text_of(*call));
  }
  return error.remedy.empty() ? text : text + "; " + error.remedy;
}

/// Returns true if `path` is an ONNX file with weights in the file `weights`.
bool refers_to(const std::filesystem::path& path, const std::filesystem::path& weights) {
  if (!std::filesystem::exists(weights)) return false;
  try {
    return onnx_contents(path).external_data.contains(weights.filename().string());
  } catch (const std::exception&) {  // no file, or a damaged one
    return false;
  }
}

/// Exports the trace of `forward` with `traced_inputs`, see `export_with_retries`.
ExportReport export_trace(torch::nn::Module& module, const Forward& forward,
                          const std::vector<torch::Tensor>& example_inputs,
                          const std::vector<torch::Tensor>& traced_inputs,
                          const std::filesystem::path& path, const ExportOptions& options,
                          const OnnxOptions& onnx_options) {
  ExportGuard guard(module, example_inputs, options, TargetFormat::onnx);
  auto trace_options = options;
  for (std::size_t i = 0; i < trace_options.input_names.size(); ++i) {
    // Names in the ONNX file need not be identifiers, but names in the trace must be identifiers.
    // Therefore the trace uses other names for inputs whose names are not identifiers.
    auto& name = trace_options.input_names[i];
    if (!is_identifier(name)) name = fmt::format("input{}", i);
  }
  const auto traced =
      program::trace_program(module, forward, traced_inputs, trace_options, TargetFormat::onnx);
  for (const auto& tensor : traced.constants()) guard.add_constant(tensor);
  TORCH_CHECK_VALUE(!traced.program.outputs.empty(),
                    "forward must return at least one output, found 0");
  const auto output_names = output_names_of(traced.trace.outputs, options.output_names);
  TORCH_CHECK_VALUE(output_names.size() == traced.program.outputs.size(), "found ",
                    output_names.size(), " output_names, expected at most ",
                    traced.program.outputs.size(), ", the number of outputs");
  onnx::Model model;
  try {
    model = onnx::translate(traced.program, tied_weights(traced), output_names, onnx_options.opset);
  } catch (const onnx::UnsupportedOperatorsError& error) {
    throw std::runtime_error(message_of(error, traced.program, module, forward, traced_inputs));
  }
  const auto input_names = numbered_names(options.input_names, example_inputs.size(), "input");
  for (std::size_t i = 0; i < input_names.size(); ++i) model.inputs.at(i).name = input_names[i];
  check_names(model);
  guard.restore();
  auto weights = traced.weights;
  for (const auto& input : traced.program.inputs) {
    // Copies, since forward may mutate buffers. Parameters may be large, and are never mutated.
    if (input.kind == program::InputKind::user || input.kind == program::InputKind::parameter)
      continue;
    auto& weight = weights.at(input.target);
    weight = weight.clone();
  }
  const program::CheckedProgram checked(traced.program, weights, example_inputs.front().device());
  const Forward run = [&](const auto& inputs) { return checked.run(inputs); };
  auto report = verify(guard, {module, run, example_inputs, traced.trace, options});
  auto weights_path = path;
  weights_path += ".data";
  const auto files = onnx::serialize(model, traced.weights,
                                     dimension_names(traced.program, options), options.extra_files,
                                     weights_path.filename().string(), onnx_options.external_data);
  std::vector<NewFile> new_files;
  if (!files.external.empty()) {
    check_utf8(weights_path.filename().string(), "the name of the file with the weights");
    report.external_data = weights_path;
    new_files.push_back(new_file(
        weights_path, [&](std::ostream& file) { onnx::write_external(file, files.external); }));
  }
  new_files.push_back(new_file(path, [&](std::ostream& file) { file << files.model; }));
  const bool had_external_data = refers_to(path, weights_path);
  replace_files(new_files);
  if (files.external.empty() && had_external_data) std::filesystem::remove(weights_path);
  return report;
}

}  // namespace

ExportReport export_onnx(ModuleRef module, const Forward& forward,
                         const std::vector<torch::Tensor>& example_inputs,
                         const std::filesystem::path& path, const ExportOptions& options,
                         const OnnxOptions& onnx_options) {
  TORCH_CHECK_VALUE(onnx_options.opset >= onnx::kMinOpset && onnx_options.opset <= onnx::kMaxOpset,
                    "opset (", onnx_options.opset, ") must be ", onnx::kMinOpset, " to ",
                    onnx::kMaxOpset);
  for (const auto& [name, content] : options.extra_files) check_utf8(content, name);
  return export_with_retries(example_inputs, [&](const std::vector<torch::Tensor>& inputs) {
    return export_trace(*module, forward, example_inputs, inputs, path, options, onnx_options);
  });
}

}  // namespace attend
