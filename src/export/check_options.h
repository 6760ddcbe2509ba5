#pragma once

#include "attend/export/export_options.h"

#include <vector>

namespace attend {

/// Throws c10::ValueError, naming what was found and what is expected, for options that do not fit
/// the example.
void check_options(const ExportOptions& options, const std::vector<torch::Tensor>& example_inputs);

}  // namespace attend
