#pragma once

#include "distributed/launch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>

namespace attend::distributed {

/// Returns the description of an error, without a place in the source code of c10d or Gloo.
std::string error_text(const std::exception& error);

/// Returns the error of a process that tried to reach the others through `path`.
std::runtime_error not_connected(const Launch& launch, const std::string& path,
                                 const std::exception& error);

/// Calls `connect`. If it fails, throws `not_connected`.
template <typename Connect>
auto connected(const Launch& launch, const std::string& path, const Connect& connect) {
  try {
    return connect();
  } catch (const std::exception& error) {
    throw not_connected(launch, path, error);
  }
}

/// Describes the address of the store.
std::string path_of_store(const Launch& launch);

/// Connects this process to the store of the launch; rank 0 starts the store unless the launcher
/// has one. Returns the part of the store that only the processes of this job use. Throws
/// std::runtime_error if that is not possible within the timeout, and a few seconds more if another
/// program uses the port.
c10::intrusive_ptr<c10d::Store> make_store(const Launch& launch, std::chrono::milliseconds timeout);

}  // namespace attend::distributed
