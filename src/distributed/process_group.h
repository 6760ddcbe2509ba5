#pragma once

#include "attend/distributed/init.h"
#include "distributed/error_report.h"
#include "distributed/launch.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

namespace gloo::transport {
class Device;
}

namespace attend::distributed {

/// Returns the backend of tensors on GPUs. Throws InputError if `backend` is not supported.
Backend gpu_backend(const Launch& launch, Backend backend);

/// Makes the device "cuda" without a number another one for each process of this machine.
void choose_gpu(const Launch& launch);

/// The network of this process.
struct Network {
  std::string path;                                                 ///< describes it
  std::vector<std::shared_ptr<::gloo::transport::Device>> devices;  ///< of Gloo
  std::string error;  ///< the reason why there are no devices; empty if there are
};

/// Finds the network interfaces in GLOO_SOCKET_IFNAME, by default that of the machine's name.
Network find_network();

/// Connects the processes with each other. They find each other through `store`, which they alone
/// use. `options.backend` is the backend of tensors on GPUs. Throws std::runtime_error if that is
/// not possible within the timeout; the message contains the cause that `report` finds.
c10::intrusive_ptr<c10d::ProcessGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const Launch& launch, const Options& options,
                                                  const Network& network, ErrorReport& report);

}  // namespace attend::distributed
