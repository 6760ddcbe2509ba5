#pragma once

#include "attend/export/export_options.h"
#include "export/check_names.h"

#include <vector>

namespace attend {

/// Throws c10::ValueError if the options are invalid, do not match the example inputs, or contain
/// an input name that files of this format cannot contain. The message names the value found and
/// the value expected.
void check_options(const ExportOptions& options, const std::vector<torch::Tensor>& example_inputs,
                   TargetFormat format);

}  // namespace attend
