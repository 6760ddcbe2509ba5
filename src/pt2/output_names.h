#pragma once

#include "pt2/json_value.h"

#include <string>
#include <vector>

namespace attend::pt2 {

/// Returns the name of each output of the program: the path to the output in the value that
/// Python's `forward` returns, such as "logits" or "states.1". The path consists of keys of
/// dictionaries, of fields of named tuples and dataclasses, and of indices. "output" if `forward`
/// returns a single tensor. `module` is the graph module in the JSON of the program. Throws
/// InputError if its out_spec is invalid.
std::vector<std::string> output_names(const JsonValue& module);

}  // namespace attend::pt2
