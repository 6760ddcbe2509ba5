#pragma once

#include "attend/models/sampling.h"

namespace attend {

/// Throws c10::ValueError if an option is out of range. The message names the option and its value.
void check_sampling(const SamplingOptions& options);

}  // namespace attend
