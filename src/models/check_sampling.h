#pragma once

#include "attend/models/sampling.h"

namespace attend {

/// Throws c10::ValueError with the option and its value if an option is out of range.
void check_sampling(const SamplingOptions& options);

}  // namespace attend
