#include "distributed/nccl.h"

#ifdef ATTEND_HAS_NCCL

#define USE_C10D_NCCL  // makes ProcessGroupNCCL.hpp declare the class
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace attend::distributed {

bool has_nccl() {
  return true;
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int world_size, std::chrono::milliseconds timeout) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world_size, options);
}

}  // namespace attend::distributed

#else

#include <stdexcept>

namespace attend::distributed {

bool has_nccl() {
  return false;
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                            std::chrono::milliseconds) {
  throw std::logic_error("attend was built without NCCL");
}

}  // namespace attend::distributed

#endif
