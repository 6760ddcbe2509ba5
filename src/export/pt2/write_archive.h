#pragma once

#include "export/program/traced_program.h"

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace attend::pt2 {

/// Writes a .pt2 archive for torch.export.load: the program, its weights, the example inputs and
/// the extra files. Throws c10::Error if the stream fails.
void write_archive(std::ostream& file, const program::TracedProgram& traced,
                   const std::vector<torch::Tensor>& inputs,
                   const std::map<std::string, std::string>& extra_files);

}  // namespace attend::pt2
