#include "attend/nn/constant.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include <mutex>

namespace attend {

Constant::Constant(const std::vector<double>& values)
    : values_(torch::tensor(values, torch::TensorOptions(torch::kCPU).dtype(torch::kDouble))) {}

torch::Tensor Constant::type_as(const torch::Tensor& x) {
  if (x.is_cpu() || torch::jit::tracer::isTracing()) return values_.type_as(x);
  // One lock for all constants: it is held for a comparison, and modules stay copyable.
  static std::mutex lock;
  const std::lock_guard guard(lock);
  if (!copy_.defined() || copy_.device() != x.device() || copy_.scalar_type() != x.scalar_type()) {
    copy_ = values_.type_as(x);
  }
  return copy_;
}

}  // namespace attend
