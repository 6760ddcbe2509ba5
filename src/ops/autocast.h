#pragma once

#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <optional>

namespace attend {

// The library attend::train also uses the functions below. They are inline, because they are not
// exported.

/// The autocast settings of a device type.
struct AutocastState {
  bool enabled;
  torch::ScalarType dtype;
};

/// Returns the current autocast settings of `device`.
inline AutocastState autocast_state(torch::DeviceType device) {
  return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}

/// Returns the dtype that autocast casts to on `device`; std::nullopt if autocast is disabled or
/// the device does not support it.
inline std::optional<torch::ScalarType> autocast_dtype(torch::DeviceType device) {
  if (!at::autocast::is_autocast_available(device)) return std::nullopt;
  const auto state = autocast_state(device);
  return state.enabled ? std::make_optional(state.dtype) : std::nullopt;
}

/// Sets the autocast settings of a device type.
inline void set_autocast_state(torch::DeviceType device, const AutocastState& state) {
  at::autocast::set_autocast_enabled(device, state.enabled);
  at::autocast::set_autocast_dtype(device, state.dtype);
}

/// Sets autocast for a device type until the end of the scope, as torch.autocast does. The
/// outermost guard clears the cache of cast weights when it ends.
///
///     const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
class AutocastGuard {
 public:
  AutocastGuard(torch::DeviceType device, const AutocastState& state)
      : device_(device), previous_(autocast_state(device)) {
    at::autocast::increment_nesting();
    set_autocast_state(device, state);
  }
  ~AutocastGuard() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set_autocast_state(device_, previous_);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  torch::DeviceType device_;
  AutocastState previous_;
};

}  // namespace attend
