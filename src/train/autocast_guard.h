#pragma once

#include "attend/train/training_config.h"

#include <ATen/autocast_mode.h>

namespace attend::train {

/// RAII guard for mixed precision (autocast) in bfloat16; does nothing for fp32.
class AutocastGuard {
 public:
  AutocastGuard(torch::DeviceType device, Precision precision)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        dtype_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::increment_nesting();
    if (precision != Precision::bf16) return;
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, torch::kBFloat16);
  }
  ~AutocastGuard() {
    // The cached copies of the weights are outdated after the next step.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, dtype_);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  torch::DeviceType device_;
  bool enabled_;
  torch::ScalarType dtype_;
};

}  // namespace attend::train
