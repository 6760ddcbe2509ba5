#pragma once

#include "attend/train/training_config.h"
#include "ops/autocast.h"

namespace attend::train {

/// Returns the autocast settings for a precision. For fp32, returns the current settings.
inline AutocastState autocast_for(Precision precision, torch::DeviceType device) {
  return precision == Precision::bf16 ? AutocastState{true, torch::kBFloat16}
                                      : autocast_state(device);
}

}  // namespace attend::train
