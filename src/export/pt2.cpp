#include "attend/export/pt2.h"

#include "attend/io/utf8.h"
#include "export/check_options.h"
#include "export/export_guard.h"
#include "export/program/checked_program.h"
#include "export/program/clamped_slices.h"
#include "export/program/decompositions.h"
#include "export/program/infer_tensor_meta.h"
#include "export/program/traced_program.h"
#include "export/pt2/write_archive.h"
#include "export/verify.h"
#include "io/files.h"
#include "io/zip_archive.h"
#include "program/input_checks.h"
#include "pt2/archive_layout.h"
#include "pt2/read_archive.h"

#include <algorithm>
#include <map>

namespace attend {
namespace {

/// Traces a method, and replaces what PyTorch's compilers cannot handle.
program::TracedProgram trace_for_archive(const torch::nn::Module& module,
                                         const TracedMethod& method) {
  auto traced = program::trace_program(module, method.function, method.example_inputs,
                                       {.input_names = method.input_names,
                                        .dynamic = method.dynamic,
                                        .arguments = method.arguments});
  if (program::decompose(traced.program)) {
    program::infer_tensor_meta(traced, TargetFormat::pt2);
  }
  program::clamp_slices(traced.program);
  program::set_hints(traced.program);
  return traced;
}

/// Compares the program `name` in the archive `file` with the module, see `verify`.
ExportReport verify_program(ExportGuard& guard, const torch::nn::Module& module,
                            const std::filesystem::path& file, const std::string& name,
                            const std::vector<torch::Tensor>& example_inputs,
                            const TraceSummary& trace, const ExportOptions& options) {
  const auto device = example_inputs.front().device();
  const auto archive = pt2::read_archive(ZipArchive(file), device, name);
  guard.share_parameters(archive.weights);
  const program::InputChecks checks(archive.program, device);
  const program::CheckedProgram checked(archive.program, archive.weights, device);
  const Forward run = [&](const std::vector<torch::Tensor>& inputs) {
    checks.check(inputs);
    auto outputs = checked.run(inputs);
    std::erase_if(outputs, [](const auto& output) { return !output.defined(); });  // None
    return outputs;
  };
  return verify(guard, {module, run, example_inputs, trace, options});
}

/// Exports the trace of `forward` with `traced_inputs`, see `export_with_retries`.
ExportReport export_trace(torch::nn::Module& module, const Forward& forward,
                          const std::vector<torch::Tensor>& example_inputs,
                          const std::vector<torch::Tensor>& traced_inputs,
                          const std::filesystem::path& path, const ExportOptions& options,
                          std::vector<TracedMethod> methods) {
  ExportGuard guard(module, example_inputs, options, TargetFormat::pt2);
  methods.insert(methods.begin(), {pt2::kDefaultModel, forward, traced_inputs, options.input_names,
                                   options.dynamic, options.arguments});
  std::map<std::string, program::TracedProgram> programs;
  for (const auto& method : methods) {
    const auto trace = [&] { programs[method.name] = trace_for_archive(module, method); };
    with_method_name(method, pt2::kDefaultModel, trace);
    for (const auto& tensor : programs.at(method.name).constants()) guard.add_constant(tensor);
  }
  guard.restore();
  ExportReport report;
  replace_file(path, [&](const std::filesystem::path& temporary) {
    write_stream(temporary, path, [&](std::ostream& file) {
      pt2::write_archive(file, programs, options.extra_files);
    });
    for (const auto& method : methods) {
      const bool is_forward = method.name == pt2::kDefaultModel;
      auto verify_options = is_forward ? options : ExportOptions{.dynamic = method.dynamic};
      verify_options.tolerance = options.tolerance;
      with_method_name(method, pt2::kDefaultModel, [&] {
        auto verified = verify_program(guard, module, temporary, method.name,
                                       is_forward ? example_inputs : method.example_inputs,
                                       programs.at(method.name).trace, verify_options);
        // forward is the first method, so the assignment overwrites no results.
        if (is_forward) report = verified;
        report.max_abs_diff = std::max(report.max_abs_diff, verified.max_abs_diff);
      });
    }
  });
  return report;
}

}  // namespace

ExportReport export_pt2(ModuleRef module, const Forward& forward,
                        const std::vector<torch::Tensor>& example_inputs,
                        const std::filesystem::path& path, const ExportOptions& options,
                        const std::vector<TracedMethod>& methods) {
  check_methods(methods, pt2::kDefaultModel, TargetFormat::pt2);
  for (const auto& [name, content] : options.extra_files) check_utf8(content, name);
  return export_with_retries(example_inputs, [&](const std::vector<torch::Tensor>& inputs) {
    return export_trace(*module, forward, example_inputs, inputs, path, options, methods);
  });
}

}  // namespace attend
