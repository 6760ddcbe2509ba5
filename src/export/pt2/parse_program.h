#pragma once

#include "export/program/program.h"
#include "export/pt2/archive_layout.h"

#include <map>
#include <string>

namespace attend::pt2 {

/// Reads models/NAME.json. Throws InputError, naming the place in it, for anything that is not as
/// the schema says or that has no meaning here: control flow, custom objects.
program::Program parse_program(const std::string& json);

/// Reads model_weights_config.json or model_constants_config.json: the weights by their names.
std::map<std::string, Weight> parse_weights(const std::string& json);

}  // namespace attend::pt2
