#pragma once

#include "attend/api.h"
#include "program/exported_program.h"
#include "pt2/archive_layout.h"

#include <map>
#include <string>

namespace attend::pt2 {

/// Parses models/NAME.json of a .pt2 archive. Throws InputError if the JSON does not follow
/// torch.export's schema or uses a feature that is not supported, such as custom objects. The
/// message names the path in the JSON document.
ATTEND_API program::ExportedProgram parse_program(const std::string& json);

/// Parses model_weights_config.json or model_constants_config.json of a .pt2 archive. Returns the
/// weights by name.
ATTEND_API std::map<std::string, Weight> parse_weights(const std::string& json);

}  // namespace attend::pt2
