#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <string>

namespace attend::train {

/// Returns the device named `name`: "cpu", "cuda", "cuda:1" (or another GPU number), or "auto".
/// "auto" selects a GPU if there is one, else the CPU. Throws InputError for an invalid name and
/// for a GPU that is not available.
ATTEND_API torch::Device resolve_device(const std::string& name);

/// Sets LibTorch's number of CPU threads; 0 leaves it unchanged.
ATTEND_API void set_num_threads(int64_t threads);

}  // namespace attend::train
