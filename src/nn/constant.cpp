#include "attend/nn/constant.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include <mutex>

namespace attend {

Constant::Constant(const std::vector<double>& values)
    : values_(torch::tensor(values, torch::TensorOptions(torch::kCPU).dtype(torch::kDouble))) {}

torch::Tensor Constant::type_as(const torch::Tensor& x) {
  if (x.is_cpu() || torch::jit::tracer::isTracing()) return values_.type_as(x);
  // All constants share one mutex, which is locked only briefly. A mutex as a member would make
  // modules non-copyable.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!copy_.defined() || copy_.device() != x.device() || copy_.scalar_type() != x.scalar_type()) {
    copy_ = values_.type_as(x);
  }
  return copy_;
}

}  // namespace attend
