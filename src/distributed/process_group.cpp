#include "distributed/process_group.h"

#include "attend/input_error.h"
#include "distributed/nccl.h"
#include "distributed/store.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
// ProcessGroupGloo.hpp includes headers of Gloo, which LibTorch does not have; they are Debian's.
// Only pointers to Gloo's types are used here, and LibTorch makes the objects, so that the versions
// of the headers and of the library may differ.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/cuda.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace attend::distributed {
namespace {

using c10d::ProcessGroup;
using c10d::ProcessGroupGloo;

int64_t num_gpus() {
  return static_cast<int64_t>(torch::cuda::device_count());
}

/// Returns the names in GLOO_SOCKET_IFNAME, which are separated by commas as for PyTorch.
std::vector<std::string> network_interfaces() {
  const char* names = std::getenv("GLOO_SOCKET_IFNAME");
  std::istringstream list(names == nullptr ? "" : names);
  std::vector<std::string> interfaces;
  for (std::string name; std::getline(list, name, ',');) interfaces.push_back(name);
  return interfaces;
}

std::string path_of_gloo(const std::vector<std::string>& interfaces) {
  return interfaces.empty() ? "the address to which the name of its machine resolves "
                              "(GLOO_SOCKET_IFNAME, a network interface, is not set)"
                            : fmt::format("the network interface {} (GLOO_SOCKET_IFNAME)",
                                          fmt::join(interfaces, ","));
}

}  // namespace

Backend gpu_backend(const Launch& launch, Backend backend) {
  const bool each_has_gpu = num_gpus() >= launch.local_world_size;
  if (backend == Backend::automatic)
    return has_nccl() && each_has_gpu ? Backend::nccl : Backend::gloo;
  if (backend == Backend::gloo || (has_nccl() && each_has_gpu)) return backend;
  throw InputError(
      fmt::format("backend nccl: {}, expected gloo",
                  !at::hasCUDA() ? "LibTorch has no CUDA"
                  : !has_nccl()  ? "attend was built without the headers of NCCL"
                                 : fmt::format("this machine has {} processes, number of GPUs: {}",
                                               launch.local_world_size, num_gpus())));
}

void choose_gpu(const Launch& launch) {
  if (num_gpus() == 0) return;
  const auto index = static_cast<c10::DeviceIndex>(launch.local_rank % num_gpus());
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice({c10::kCUDA, index});
}

Network find_network() {
  const auto interfaces = network_interfaces();
  Network network{.path = path_of_gloo(interfaces), .devices = {}, .error = {}};
  try {
    for (const auto& name : interfaces)
      network.devices.push_back(ProcessGroupGloo::createDeviceForInterface(name));
    if (interfaces.empty()) network.devices.push_back(ProcessGroupGloo::createDefaultDevice());
  } catch (const std::exception& error) {
    network.error = error_text(error);
  }
  return network;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const Launch& launch, const Options& options,
                                                  const Network& network, ErrorReport& report) {
  const auto rank = static_cast<int>(launch.rank);
  const auto size = static_cast<int>(launch.world_size);
  try {
    const auto gloo_options = ProcessGroupGloo::Options::create(options.timeout);
    gloo_options->devices = network.devices;
    const c10::intrusive_ptr<c10d::Backend> gloo =
        c10::make_intrusive<ProcessGroupGloo>(store, rank, size, gloo_options);
    auto group = c10::make_intrusive<ProcessGroup>(store, rank, size);
    group->setBackend(c10::DeviceType::CPU, ProcessGroup::BackendType::GLOO, gloo);
    const bool nccl = options.backend == Backend::nccl;
    group->setBackend(c10::DeviceType::CUDA,
                      nccl ? ProcessGroup::BackendType::NCCL : ProcessGroup::BackendType::GLOO,
                      nccl ? make_nccl(store, rank, size, options.timeout) : gloo);
    group->setDefaultBackend(ProcessGroup::BackendType::GLOO);
    return group;
  } catch (const std::exception& error) {  // a process may have ended
    const auto lost =
        not_connected(launch, network.path, std::runtime_error(report.cause(error_text(error))));
    report.announce(lost.what());
    report.is_new(lost.what());  // rank 0, which may have the store, waits for the others
    throw lost;
  }
}

}  // namespace attend::distributed
