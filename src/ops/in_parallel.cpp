#include "ops/in_parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <hwy/cache_control.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <thread>

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

/// Number of threads that are worth their start. `threads`: number of LibTorch's threads.
int64_t parts_of(const Phase& phase, int64_t threads) {
  return std::clamp<int64_t>((phase.count + phase.grain - 1) / phase.grain, 1, threads);
}

/// Waits until `arrived` is at least `expected`. std::barrier would sleep after a few spins, and a
/// thread that gets no part, or several, would have to arrive, too.
void wait_for(const std::atomic<int64_t>& arrived, int64_t expected) {
  constexpr int kSpins = 2000;  // after tens of microseconds, another thread may need this core
  for (int i = 0; arrived.load(std::memory_order_acquire) < expected; ++i) {
    if (i < kSpins) {
      hwy::Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

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

void in_phases(std::initializer_list<Phase> phases) {
#if AT_PARALLEL_OPENMP
  const int64_t threads = at::get_num_threads();
  int64_t parts = 1;
  for (const auto& phase : phases) parts = std::max(parts, parts_of(phase, threads));
  // A thread may get several parts, or none, if LibTorch starts fewer threads.
  std::atomic<int64_t> arrived = 0;  // parts, counted once for each phase
  in_parallel(parts, /*grain=*/1, [&](int64_t begin, int64_t end) {
    int64_t expected = 0;
    for (const auto& phase : phases) {
      if (phase.count == 0) continue;
      if (expected > 0) wait_for(arrived, expected);
      const auto parts_of_phase = parts_of(phase, threads);
      const auto first = phase.count * std::min(begin, parts_of_phase) / parts_of_phase;
      const auto last = phase.count * std::min(end, parts_of_phase) / parts_of_phase;
      if (first < last) phase.run(first, last);
      arrived.fetch_add(end - begin, std::memory_order_acq_rel);
      expected += parts;
    }
  });
#else
  // Other thread pools may run the parts one after the other.
  for (const auto& phase : phases)
    if (phase.count > 0) in_parallel(phase.count, phase.grain, phase.run);
#endif
}

}  // namespace attend
