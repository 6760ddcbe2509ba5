#pragma once

#include <ATen/Context.h>
#include <torch/types.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace attend {

// Inline: the trainer, a library of its own, uses these too.

/// The devices that a computation on `device` draws random numbers from: the CPU and, if `device`
/// is an accelerator, `device`.
inline std::vector<torch::Device> rng_devices(torch::Device device) {
  if (device.is_cpu() || device.is_meta()) return {torch::kCPU};
  return {torch::kCPU, device};
}

/// States of LibTorch's default generators by device type, such as "cpu" and "cuda".
using RngState = std::map<std::string, torch::Tensor>;

/// Returns the state of the default generators of `rng_devices(device)`.
inline RngState rng_state(torch::Device device) {
  RngState state;
  for (const auto& each : rng_devices(device)) {
    auto generator = at::globalContext().defaultGenerator(each);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    state[c10::DeviceTypeName(each.type(), /*lower_case=*/true)] = generator.get_state();
  }
  return state;
}

/// Restores what `rng_state` returned. A generator without an entry in `state` is left unchanged,
/// e.g. that of the GPU when a run started on the CPU is resumed on a GPU.
inline void set_rng_state(torch::Device device, const RngState& state) {
  for (const auto& each : rng_devices(device)) {
    const auto saved = state.find(c10::DeviceTypeName(each.type(), /*lower_case=*/true));
    if (saved == state.end()) continue;
    auto generator = at::globalContext().defaultGenerator(each);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(saved->second);
  }
}

/// Sets the RNG state until the end of the scope, then restores the state from before.
///
///     const RngGuard rng(device, saved_state);
class RngGuard {
 public:
  RngGuard(torch::Device device, const RngState& state)
      : device_(device), previous_(rng_state(device)) {
    set_rng_state(device, state);
  }
  ~RngGuard() { set_rng_state(device_, previous_); }
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  torch::Device device_;
  RngState previous_;
};

}  // namespace attend
