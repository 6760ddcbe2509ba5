#include "attend/export/pt2.h"

#include "export/export_guard.h"
#include "export/program/checked_program.h"
#include "export/program/clamped_slices.h"
#include "export/program/decompositions.h"
#include "export/program/infer_tensor_meta.h"
#include "export/program/traced_program.h"
#include "export/pt2/write_archive.h"
#include "export/verify.h"
#include "io/files.h"
#include "io/utf8.h"
#include "io/zip_archive.h"
#include "program/input_checks.h"
#include "pt2/read_archive.h"

namespace attend {
namespace {

/// Exports the trace of `forward` with `traced_inputs`, see `export_with_retries`.
ExportReport export_trace(torch::nn::Module& module, const Forward& forward,
                          const std::vector<torch::Tensor>& example_inputs,
                          const std::vector<torch::Tensor>& traced_inputs,
                          const std::filesystem::path& path, const ExportOptions& options) {
  ExportGuard guard(module, example_inputs, options, TargetFormat::pt2);
  auto traced = program::trace_program(module, forward, traced_inputs, options);
  if (program::decompose(traced.program)) {
    program::infer_tensor_meta(traced, TargetFormat::pt2);
  }
  program::clamp_slices(traced.program);
  program::set_hints(traced.program);
  for (const auto& tensor : traced.constants()) guard.add_constant(tensor);
  guard.restore();
  ExportReport report;
  replace_file(path, [&](const std::filesystem::path& temporary) {
    write_stream(temporary, path, [&](std::ostream& file) {
      pt2::write_archive(file, traced, traced_inputs, options.extra_files);
    });
    const auto device = example_inputs.front().device();
    const auto archive = pt2::read_archive(ZipArchive(temporary), device);
    guard.share_parameters(archive.weights);
    const program::InputChecks checks(archive.program, device);
    const program::CheckedProgram checked(archive.program, archive.weights, device);
    const Forward run = [&](const std::vector<torch::Tensor>& inputs) {
      checks.check(inputs);
      auto outputs = checked.run(inputs);
      std::erase_if(outputs, [](const auto& output) { return !output.defined(); });  // None
      return outputs;
    };
    report = verify(guard, {module, run, example_inputs, traced.trace, options});
  });
  return report;
}

}  // namespace

ExportReport export_pt2(ModuleRef module, const Forward& forward,
                        const std::vector<torch::Tensor>& example_inputs,
                        const std::filesystem::path& path, const ExportOptions& options) {
  for (const auto& [name, content] : options.extra_files) check_utf8(content, name);
  return export_with_retries(example_inputs, [&](const std::vector<torch::Tensor>& inputs) {
    return export_trace(*module, forward, example_inputs, inputs, path, options);
  });
}

}  // namespace attend
