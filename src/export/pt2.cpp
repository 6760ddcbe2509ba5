#include "attend/export/pt2.h"

#include "attend/pt2/pt2_program.h"
#include "export/export_guard.h"
#include "export/program/checked_program.h"
#include "export/program/clamped_slices.h"
#include "export/program/traced_program.h"
#include "export/pt2/write_archive.h"
#include "export/resize.h"
#include "export/verify.h"
#include "io/files.h"
#include "io/utf8.h"
#include "io/zip_archive.h"
#include "pt2/read_pt2.h"

namespace attend {

ExportReport export_pt2(torch::nn::Module& module, const Forward& forward,
                        const std::vector<torch::Tensor>& example_inputs,
                        const std::filesystem::path& path, const ExportOptions& options) {
  ExportGuard guard(module, example_inputs, options, TargetFormat::pt2);
  for (const auto& [name, content] : options.extra_files) check_utf8(content, name);
  auto traced = program::trace_program(module, forward, example_inputs, options);
  program::clamp_slices(traced.program);
  program::set_hints(traced.program);
  for (const auto& tensor : traced.constants()) guard.add_constant(tensor);
  guard.restore();
  const auto bytes = pt2::archive_of(traced, example_inputs, options.extra_files);
  const auto file = read_pt2(ZipArchive(std::string_view(bytes)),
                             {.device = example_inputs.front().device(), .namespaces = {"aten"}});
  // `checked` checks the sizes in the metadata; `file` returns the outputs that are compared.
  const program::CheckedProgram checked(traced, example_inputs.front().device());
  const auto run = [&](const std::vector<torch::Tensor>& inputs) {
    const auto copies = copies_of(inputs);
    // `file` runs before `checked`, so that it draws the same random numbers as the module.
    const auto outputs = file.forward(inputs);
    checked.run(copies);
    return outputs;
  };
  const auto report = verify(guard, module, run, forward, example_inputs, traced.integers, options);
  replace_file(path, bytes);
  return report;
}

}  // namespace attend
