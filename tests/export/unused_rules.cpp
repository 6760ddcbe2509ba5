#include "export/unused_rules.h"

#include "export/export_guard.h"
#include "export/onnx/rules.h"
#include "export/program/traced_program.h"
#include "export/verify.h"

#include <set>

namespace attend {

std::vector<std::string> unused_rules(const std::vector<ExportCase>& cases) {
  std::set<const onnx::Rule*> used;
  for (const auto& any : cases) {
    if (any.formats.count("onnx") == 0) continue;
    const auto example = draw_example(any);
    const auto options = options_of(any);
    const ExportGuard guard(*any.module, example, options, TargetFormat::onnx);
    with_source(any, [&] {
      export_with_retries(example, [&](const Tensors& inputs) {
        const auto traced =
            program::trace_program(*any.module, any.forward, inputs, options, TargetFormat::onnx);
        for (const auto& node : traced.program.nodes) {
          used.insert(onnx::find_rule(node, traced.program));
        }
        return ExportReport();
      });
    });
  }
  std::vector<std::string> unused;
  for (const auto& [name, rule] : onnx::all_rules()) {
    if (used.count(&rule) == 0) unused.push_back(name);
  }
  return unused;
}

}  // namespace attend
