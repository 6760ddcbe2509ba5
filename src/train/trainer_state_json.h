#pragma once

#include "attend/api.h"
#include "attend/train/checkpoint.h"

#include <string>

namespace attend::train {

/// Returns the state as JSON. Finite numbers and NaN round-trip; infinity is read back as NaN.
ATTEND_API std::string to_json(const TrainerState& state);

/// Parses the result of `to_json`. Throws InputError for any other text.
ATTEND_API TrainerState trainer_state_from_json(const std::string& text);

}  // namespace attend::train
