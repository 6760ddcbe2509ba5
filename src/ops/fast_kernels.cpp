#include "ops/fast_kernels.h"

#include "ops/autocast.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace attend {
namespace {

/// Number of NoInferenceKernelsGuards of this thread.
thread_local int no_inference_kernels_guards = 0;

/// Calls functions on LibTorch's threads. at::parallel_for would need this file to be compiled with
/// OpenMP, whose library need not be the one that LibTorch uses. An iterator calls a function
/// inside LibTorch.
struct Threads {
  static constexpr int64_t kNumbers = 4096;

  torch::Tensor numbers = torch::empty({kNumbers}, torch::kByte);  // only the addresses are used
  at::TensorIterator iterator = at::TensorIterator::nullary_op(numbers);
};

}  // namespace

bool fast_kernels_are_enabled() {
  static const bool enabled = [] {
    const auto* fast = std::getenv("ATTEND_FAST");
    return fast == nullptr || std::string_view(fast) != "0";
  }();
  return enabled;
}

NoInferenceKernelsGuard::NoInferenceKernelsGuard() {
  ++no_inference_kernels_guards;
}

NoInferenceKernelsGuard::~NoInferenceKernelsGuard() {
  --no_inference_kernels_guards;
}

bool is_plain(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == torch::kStrided && !tensor.is_nested() &&
         !tensor.is_neg() && !tensor._is_zerotensor() && !at::isTensorSubclassLike(tensor) &&
         !tensor._fw_grad(/*level=*/0).defined();
}

bool can_use_fast_kernels(std::initializer_list<const torch::Tensor*> tensors) {
  return fast_kernels_are_enabled() && !torch::jit::tracer::isTracing() &&
         std::all_of(tensors.begin(), tensors.end(), [](const torch::Tensor* tensor) {
           return !tensor->defined() || is_plain(*tensor);
         });
}

bool can_use_inference_kernels(std::initializer_list<const torch::Tensor*> tensors) {
  if (no_inference_kernels_guards > 0) return false;
  const bool computes_gradients =
      torch::GradMode::is_enabled() &&
      std::any_of(tensors.begin(), tensors.end(), [](const torch::Tensor* tensor) {
        return tensor->defined() && tensor->requires_grad();
      });
  return !computes_gradients && can_use_fast_kernels(tensors) && !autocast_dtype(torch::kCPU);
}

void in_parallel(int64_t count, int64_t grain, c10::function_ref<void(int64_t, int64_t)> run) {
  const auto parts = std::min<int64_t>(at::get_num_threads(), (count + grain - 1) / grain);
  if (parts <= 1) return run(0, count);
  // Kept, because its construction takes longer than the work of small products.
  thread_local Threads threads;
  constexpr auto kNumbers = Threads::kNumbers;
  const auto* first = reinterpret_cast<const char*>(threads.numbers.const_data_ptr<uint8_t>());
  threads.iterator.for_each(
      [&](char** data, const int64_t* /*strides*/, int64_t size, int64_t /*outer_size*/) {
        const int64_t begin = data[0] - first;
        run(count * begin / kNumbers, count * (begin + size) / kNumbers);
      },
      /*grain_size=*/(kNumbers + parts - 1) / parts);
}

}  // namespace attend
