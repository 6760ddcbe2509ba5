#include "export/pt2/traced_program.h"

#include "attend/nn/static_shapes.h"
#include "export/frozen_size.h"
#include "export/pt2/describe.h"
#include "export/pt2/from_trace.h"
#include "export/trace.h"

#include <fmt/format.h>

namespace attend::pt2 {

TracedProgram trace_program(const torch::nn::Module& module, const Forward& function,
                            const std::vector<torch::Tensor>& example_inputs,
                            const ExportOptions& options, OddSizes odd_sizes) {
  const StaticShapes static_shapes;
  auto scripted = mirror(module);
  add_traced_method(scripted, "forward", function, example_inputs, options.input_names);
  check_recurrent_layers(scripted, "forward", module, function, example_inputs, options.dynamic);
  auto traced = program_of(scripted);
  try {
    describe_tensors(traced, example_inputs, options.dynamic, odd_sizes);
  } catch (const std::exception& error) {
    const auto frozen = find_frozen_size(module, function, example_inputs, options.dynamic);
    if (!frozen) throw;
    const std::string why = error.what();
    throw std::runtime_error(
        fmt::format("{}; a size was frozen: {}", why.substr(0, why.find('\n')), *frozen));
  }
  return traced;
}

}  // namespace attend::pt2
