#include "train/random_states.h"

#include <ATen/Context.h>

#include <mutex>

namespace attend::train {
namespace {

std::vector<torch::Device> devices_with_generators(torch::Device device) {
  if (device.is_cpu()) return {device};
  return {torch::Device(torch::kCPU), device};
}

std::string name_of(torch::Device device) {
  return c10::DeviceTypeName(device.type(), /*lower_case=*/true);
}

}  // namespace

std::map<std::string, torch::Tensor> random_states(torch::Device device) {
  std::map<std::string, torch::Tensor> states;
  for (const auto& place : devices_with_generators(device)) {
    auto generator = at::globalContext().defaultGenerator(place);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    states[name_of(place)] = generator.get_state();
  }
  return states;
}

void set_random_states(torch::Device device, const std::map<std::string, torch::Tensor>& states) {
  for (const auto& place : devices_with_generators(device)) {
    const auto state = states.find(name_of(place));
    if (state == states.end()) continue;
    auto generator = at::globalContext().defaultGenerator(place);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state->second);
  }
}

}  // namespace attend::train
