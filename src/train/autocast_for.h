#pragma once

#include "attend/train/training_config.h"
#include "nn/autocast_guard.h"

namespace attend::train {

/// Returns the autocast settings of a precision; those of the caller for fp32.
inline AutocastState autocast_for(Precision precision, torch::DeviceType device) {
  return precision == Precision::bf16 ? AutocastState{true, torch::kBFloat16}
                                      : autocast_state(device);
}

}  // namespace attend::train
