#include "ops/in_parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <hwy/cache_control.h>
#include <sched.h>
#include <torch/types.h>
#include <unistd.h>

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

/// Returns the number of hardware threads that this process may use.
int64_t available_cores() {
#ifdef __linux__
  cpu_set_t cores;
  if (::sched_getaffinity(::getpid(), sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
#endif
  return std::thread::hardware_concurrency();
}

/// A call of `in_parallel` or `in_phases`, until the end of the scope. Callers share the cores:
/// threads of one would otherwise wait while those of others work.
class Caller {
 public:
  Caller() {
    const auto others = running.fetch_add(1);
    if (others > 0) calls_to_share = kCallsToShare;
    const bool expects_another = calls_to_share > 0 && calls_to_share-- > 0;
    callers_ = std::max<int64_t>(others + 1, expects_another ? 2 : 1);
  }
  ~Caller() { running.fetch_sub(1); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// Number of LibTorch's threads among which this caller may divide its work.
  int64_t threads() const {
    static const int64_t cores = available_cores();
    const int64_t threads = at::get_num_threads();
    return callers_ == 1 ? threads : std::clamp<int64_t>(cores / callers_, 1, threads);
  }

 private:
  /// Between two calls, a caller may compute something else for a short time.
  static constexpr int64_t kCallsToShare = 100;
  inline static std::atomic<int64_t> calls_to_share = 0;
  inline static std::atomic<int64_t> running = 0;
  int64_t callers_;
};

/// Number of threads that are worth their start, of at most `threads`.
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

/// `in_parallel` with at most `max_parts` parts.
void in_parts(int64_t max_parts, int64_t count, int64_t grain,
              c10::function_ref<void(int64_t, int64_t)> run) {
  const auto parts = std::min(max_parts, (count + grain - 1) / grain);
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

}  // namespace

void in_parallel(int64_t count, int64_t grain, c10::function_ref<void(int64_t, int64_t)> run) {
  const Caller caller;
  in_parts(caller.threads(), count, grain, run);
}

void in_phases(std::initializer_list<Phase> phases) {
#if AT_PARALLEL_OPENMP
  const Caller caller;
  const auto threads = caller.threads();
  int64_t parts = 1;
  for (const auto& phase : phases) parts = std::max(parts, parts_of(phase, threads));
  // A thread may get several parts, or none, if LibTorch starts fewer threads.
  std::atomic<int64_t> arrived = 0;  // parts, counted once for each phase
  in_parts(parts, parts, /*grain=*/1, [&](int64_t begin, int64_t end) {
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
