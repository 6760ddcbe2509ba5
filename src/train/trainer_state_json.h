#pragma once

#include "attend/train/checkpoint.h"

#include <string>

namespace attend::train {

/// A standing as JSON, every number exactly.
std::string to_json(const TrainerState& standing);

/// Reads what `to_json` wrote. Throws InputError if it is anything else.
TrainerState trainer_state_from_json(const std::string& text);

}  // namespace attend::train
