#pragma once

#include "export/program/traced_program.h"

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace attend::pt2 {

/// Writes a .pt2 archive for torch.export.load: the programs by name, their weights and example
/// inputs, and the extra files. Throws c10::Error if the stream fails.
void write_archive(std::ostream& file,
                   const std::map<std::string, program::TracedProgram>& programs,
                   const std::map<std::string, std::string>& extra_files);

}  // namespace attend::pt2
