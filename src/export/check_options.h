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

/// Throws c10::ValueError if a method has an invalid name, if two methods have the same name, if
/// one has the name `forward`, which is that of the module's forward in the file, or if
/// `check_options` throws for a method.
void check_methods(const std::vector<TracedMethod>& methods, const std::string& forward,
                   TargetFormat format);

}  // namespace attend
