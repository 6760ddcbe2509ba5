#pragma once

#include <ATen/Context.h>
#include <torch/types.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
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

/// Returns the state of the default generator of `device`.
inline torch::Tensor generator_state(torch::Device device) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

/// Sets the state of the default generator of `device`.
inline void set_generator_state(torch::Device device, const torch::Tensor& state) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

/// Returns the state of the default generators of `rng_devices(device)`.
inline RngState rng_state(torch::Device device) {
  RngState state;
  for (const auto& each : rng_devices(device)) {
    state[c10::DeviceTypeName(each.type(), /*lower_case=*/true)] = generator_state(each);
  }
  return state;
}

/// Restores the states returned by `rng_state`. A generator without an entry in `state` is left
/// unchanged, e.g. the GPU's generator when a run started on the CPU is resumed on a GPU.
inline void set_rng_state(torch::Device device, const RngState& state) {
  for (const auto& each : rng_devices(device)) {
    const auto saved = state.find(c10::DeviceTypeName(each.type(), /*lower_case=*/true));
    if (saved != state.end()) set_generator_state(each, saved->second);
  }
}

/// States of the default generators of several devices.
using GeneratorStates = std::vector<std::pair<torch::Device, torch::Tensor>>;

/// Returns the states of the default generators of `devices`.
inline GeneratorStates generator_states(const std::vector<torch::Device>& devices) {
  GeneratorStates states;
  for (const auto& device : devices) states.emplace_back(device, generator_state(device));
  return states;
}

/// Sets the states of generators until the end of the scope, then restores the previous states.
///
///     const RngGuard rng(saved_states);
class RngGuard {
 public:
  explicit RngGuard(const GeneratorStates& states) {
    for (const auto& [device, state] : states) {
      previous_.emplace_back(device, generator_state(device));
      set_generator_state(device, state);
    }
  }
  ~RngGuard() {
    for (const auto& [device, state] : previous_) set_generator_state(device, state);
  }
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  GeneratorStates previous_;
};

}  // namespace attend
