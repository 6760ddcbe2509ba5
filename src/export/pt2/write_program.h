#pragma once

#include "export/program/traced_program.h"
#include "pt2/archive_layout.h"

#include <map>
#include <string>

namespace attend::pt2 {

/// Serializes a traced program to the JSON of the archive entry models/NAME.json. All outputs must
/// have the kind `OutputKind::user`. `torch_version` is the LibTorch version that traced the
/// program.
std::string program_json(const program::TracedProgram& traced, const std::string& torch_version);

/// Serializes weights to the JSON of the archive's weights config. `parse_weights` reads this JSON.
std::string weights_json(const std::map<std::string, Weight>& weights);

}  // namespace attend::pt2
