#pragma once

#include "attend/api.h"
#include "distributed/launch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>
#include <vector>

namespace attend::distributed {

/// Waits until all processes have called this function, and compares them. Returns the part of
/// `store` that only these processes use: a launcher may start the processes again with the same
/// store, which then contains what earlier processes have written. `properties` are lines such as
/// "WORLD_SIZE 2", in the same order in all processes. Throws InputError in all processes if a line
/// differs from that of rank 0, std::runtime_error if a process has not called this function within
/// the timeout of the store; the messages name the rank. Throws c10::Error if the store does not
/// answer.
ATTEND_API c10::intrusive_ptr<c10d::Store> rendezvous(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const Launch& launch,
                                                      const std::vector<std::string>& properties);

}  // namespace attend::distributed
