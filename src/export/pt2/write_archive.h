#pragma once

#include "export/program/traced_program.h"

#include <map>
#include <string>
#include <vector>

namespace attend::pt2 {

/// The bytes of an archive as torch.export.load reads it: the program, its weights, the inputs that
/// it was traced with, and files under extra/.
std::string archive_of(const program::TracedProgram& traced,
                       const std::vector<torch::Tensor>& inputs,
                       const std::map<std::string, std::string>& extra_files);

}  // namespace attend::pt2
