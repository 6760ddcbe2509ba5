#include "ops/in_parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <torch/types.h>

#include <algorithm>

namespace attend {
namespace {

/// Calls functions on LibTorch's threads. at::parallel_for would need this file to be compiled with
/// OpenMP, whose library need not be the one that LibTorch uses. An iterator calls a function
/// inside LibTorch.
struct Threads {
  static constexpr int64_t kNumbers = 4096;

  torch::Tensor numbers = torch::empty({kNumbers}, torch::kByte);  // only the addresses are used
  at::TensorIterator iterator = at::TensorIterator::nullary_op(numbers);
};

}  // namespace

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
