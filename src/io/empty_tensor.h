#pragma once

#include "attend/api.h"
#include "attend/io/safetensors_header.h"

#include <torch/types.h>

namespace attend {

/// Returns a tensor without values for an entry of a header. Throws InputError if LibTorch does not
/// support its dtype.
ATTEND_API torch::Tensor empty_tensor(const SafetensorsEntry& entry,
                                      torch::Device device = torch::kCPU);

}  // namespace attend
