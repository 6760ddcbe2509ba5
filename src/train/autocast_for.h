#pragma once

#include "attend/train/training_config.h"
#include "ops/autocast.h"

namespace attend::train {

/// Returns the autocast settings for a precision. For fp32, returns the current settings.
inline AutocastState autocast_for(Precision precision, torch::DeviceType device) {
  switch (precision) {
    case Precision::bf16:
      return {true, torch::kBFloat16};
    case Precision::fp16:
      return {true, torch::kHalf};
    case Precision::fp32:
      break;
  }
  return autocast_state(device);
}

}  // namespace attend::train
