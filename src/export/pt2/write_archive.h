#pragma once

#include "export/program/traced_program.h"

#include <map>
#include <string>
#include <vector>

namespace attend::pt2 {

/// Returns the bytes of a .pt2 archive for torch.export.load: the program, its weights, the example
/// inputs and the extra files.
std::string archive_of(const program::TracedProgram& traced,
                       const std::vector<torch::Tensor>& inputs,
                       const std::map<std::string, std::string>& extra_files);

}  // namespace attend::pt2
