#pragma once

#include "attend/api.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace attend::distributed {

/// Whether this library was built with the headers of NCCL, for a LibTorch with CUDA.
ATTEND_API bool has_nccl();

/// Returns the backend that sends tensors between GPUs. Each process has a GPU of its own, the
/// current one of its thread. Throws std::logic_error unless `has_nccl()`.
ATTEND_API c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                                       int rank, int world_size,
                                                       std::chrono::milliseconds timeout);

}  // namespace attend::distributed
