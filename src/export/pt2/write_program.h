#pragma once

#include "export/program/program.h"
#include "export/pt2/archive_layout.h"

#include <map>
#include <string>

namespace attend::pt2 {

/// What `parse_program` reads, of a traced program: its outputs are all the user's, and its numbers
/// are known or sizes. `torch_version` says with which LibTorch the program was made.
std::string program_json(const program::Program& program, const std::string& torch_version);

/// What `parse_weights` reads.
std::string weights_json(const std::map<std::string, Weight>& weights);

}  // namespace attend::pt2
