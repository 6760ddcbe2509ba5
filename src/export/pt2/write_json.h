#pragma once

#include "export/pt2/program.h"

#include <map>
#include <string>

namespace attend::pt2 {

/// What `parse_program` reads.
std::string write_program(const Program& program);

/// What `parse_weights` reads: `parameters` says of which of the weights optimizers know.
std::string write_weights(const std::map<std::string, Weight>& weights,
                          const std::map<std::string, bool>& parameters);

}  // namespace attend::pt2
