#pragma once

#include "attend/train/snapshot.h"

#include <string>

namespace attend::train {

/// A standing as JSON, every number exactly.
std::string to_json(const Standing& standing);

/// Reads what `to_json` wrote. Throws InputError if it is anything else.
Standing standing_from_json(const std::string& text);

}  // namespace attend::train
