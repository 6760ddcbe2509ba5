#pragma once

#include <ATen/Context.h>
#include <torch/types.h>

#include <mutex>
#include <utility>
#include <vector>

namespace attend {

// The functions below are inline, because the libraries attend::export and attend::train also use
// them and the library attend does not export them.

/// Returns the devices whose default generators a computation on `device` may use: the CPU and, if
/// `device` is an accelerator, `device`.
inline std::vector<torch::Device> rng_devices(torch::Device device) {
  if (device.is_cpu() || device.is_meta()) return {torch::kCPU};
  return {torch::kCPU, device};
}

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

/// States of LibTorch's default generators.
using RngState = std::vector<std::pair<torch::Device, torch::Tensor>>;

/// Returns the states of the default generators of `devices`.
inline RngState rng_state(const std::vector<torch::Device>& devices) {
  RngState states;
  for (const auto& device : devices) states.emplace_back(device, generator_state(device));
  return states;
}

/// For each device in `states`, sets the state of its default generator.
inline void set_rng_state(const RngState& states) {
  for (const auto& [device, state] : states) set_generator_state(device, state);
}

/// Sets the states of generators until the end of the scope, then restores the previous states.
///
///     const RngGuard rng(saved_states);
class RngGuard {
 public:
  explicit RngGuard(const RngState& states) {
    for (const auto& [device, state] : states) {
      previous_.emplace_back(device, generator_state(device));
    }
    set_rng_state(states);
  }
  ~RngGuard() { set_rng_state(previous_); }
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  RngState previous_;
};

}  // namespace attend
