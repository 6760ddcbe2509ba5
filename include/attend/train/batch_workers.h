#pragma once

#include "attend/api.h"
#include "attend/train/background.h"
#include "attend/train/processes.h"
#include "attend/train/sampler.h"

#include <ATen/core/grad_mode.h>
#include <torch/data/example.h>
#include <torch/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace attend::train {

/// Options of the preparation of training batches.
struct LoaderOptions {
  /// Number of threads that prepare batches ahead of training, at most two batches each; 0 = the
  /// thread that trains prepares each batch when it needs it. The batches do not depend on it.
  int64_t workers = 0;
  /// Changes a training batch, for example by random crops. It may be called by several threads at
  /// the same time. It draws random numbers from `generator` only, which is new for each batch.
  std::function<torch::data::Example<>(torch::data::Example<> batch, torch::Generator generator)>
      transform = {};
};

/// Threads that prepare batches. Functions are called without gradients and without autocast, with
/// the number of their worker, from 0.
///
///     BatchWorkers workers(2);
///     auto future = workers.add([&](std::size_t) { return get_batch(dataset, {0, 5, 2}); });
///     const auto images = future.get().data;  // rethrows what `get_batch` has thrown
class ATTEND_API BatchWorkers {
 public:
  /// `workers`: number of threads; 0 = none, functions are called by `get()` of their results.
  /// Throws c10::ValueError if it is negative.
  explicit BatchWorkers(int64_t workers);
  /// Waits for the functions that are running. Others are not called.
  ~BatchWorkers();
  BatchWorkers(const BatchWorkers&) = delete;
  BatchWorkers& operator=(const BatchWorkers&) = delete;
  BatchWorkers(BatchWorkers&&) = delete;
  BatchWorkers& operator=(BatchWorkers&&) = delete;

  /// Number of threads.
  int64_t size() const { return static_cast<int64_t>(threads_.size()); }
  /// Calls `function(worker)` on the next thread, after the functions that were added before.
  template <typename Function>
  std::shared_future<std::invoke_result_t<Function, std::size_t>> add(Function function) {
    const auto worker = threads_.empty() ? std::size_t{0} : next_++ % threads_.size();
    const auto run = [function = std::move(function), worker, dropped = dropped_]() mutable {
      if (*dropped) throw std::runtime_error("the batch is no longer needed");
      const Scope scope;
      return function(worker);
    };
    if (threads_.empty()) return std::async(std::launch::deferred, run).share();
    using Result = std::invoke_result_t<Function, std::size_t>;
    auto task = std::make_shared<std::packaged_task<Result()>>(run);
    auto result = task->get_future().share();
    threads_[worker]->add([task] { (*task)(); });
    return result;
  }
  /// Does not call the functions that wait.
  void drop();

 private:
  /// No gradients and no autocast.
  class ATTEND_API Scope {
   public:
    Scope();
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    at::NoGradGuard no_grad_;
    bool cpu_;
    bool cuda_;
  };

  std::shared_ptr<std::atomic<bool>> dropped_ = std::make_shared<std::atomic<bool>>(false);
  std::size_t next_ = 0;
  std::vector<std::unique_ptr<BackgroundThread>> threads_;
};

/// A batch of an objective: what it draws from a `Sampler`.
struct BatchRequest {
  int64_t size = 0;                       ///< number of samples
  std::vector<std::size_t> indices = {};  ///< of the samples, unless they are those of a stream
  std::optional<uint64_t> seed = {};      ///< of `LoaderOptions::transform`, if there is one

  /// Compares all fields.
  friend bool operator==(const BatchRequest&, const BatchRequest&) = default;
};

/// Draws batches ahead of the calls that need them: a copy of the sampler draws the same numbers
/// that the sampler of the calls will draw. If it does not, as after a resume, begins again.
///
/// `Result` is what `Functions::start` returns.
template <typename Result>
class BatchesAhead {
 public:
  /// How batches are drawn and prepared.
  struct Functions {
    std::function<BatchRequest(int64_t size, Sampler& sampler)> draw;  ///< draws a batch
    /// Starts the preparation of a batch; `is_own`: this process trains on it.
    std::function<Result(const BatchRequest& request, bool is_own)> start;
    std::function<void()> restart = [] {};  ///< called before a batch that does not follow the last
  };

  /// Calls `functions` for batches of this process out of `processes`.
  explicit BatchesAhead(Functions functions) : functions_(std::move(functions)) {}

  /// Returns the started batch of `size` samples that `sampler` draws. Then starts following ones,
  /// until `ahead` own batches are started: of the sizes of the last batches of each process.
  Result next(int64_t size, Sampler& sampler, const Processes& processes, int64_t ahead) {
    const auto world_size = static_cast<std::size_t>(processes.world_size());
    sizes_.resize(world_size, 0);
    sizes_[calls_ % world_size] = size;
    const auto add = [&](const BatchRequest& request, std::size_t call) {
      const bool is_own = static_cast<int64_t>(call % world_size) == processes.rank();
      started_.push_back({request, functions_.start(request, is_own)});
    };
    const auto request = functions_.draw(size, sampler);
    if (!started_.empty() && started_.front().first != request) clear();
    if (!is_begun_) functions_.restart();
    is_begun_ = true;
    if (started_.empty()) {
      ahead_ = sampler.copy();
      add(request, calls_);
    }
    auto result = std::move(started_.front().second);
    started_.pop_front();
    ++calls_;
    while (started_.size() < static_cast<std::size_t>(ahead) * world_size) {
      const auto call = calls_ + started_.size();
      const auto expected = sizes_[call % world_size];
      if (expected == 0) break;  // not known yet
      add(functions_.draw(expected, *ahead_), call);
    }
    return result;
  }
  /// Begins again at the next call, for example after a resume.
  void clear() {
    started_.clear();
    is_begun_ = false;
  }

 private:
  Functions functions_;
  std::deque<std::pair<BatchRequest, Result>> started_;
  std::optional<Sampler> ahead_;  // has drawn the last of `started_`
  std::vector<int64_t> sizes_;    // of the last batch of each process
  std::size_t calls_ = 0;         // of `next`
  bool is_begun_ = false;         // `restart` was called
};

/// Throws c10::ValueError for options out of range.
ATTEND_API void check_loader_options(const LoaderOptions& options);

/// Draws the seed of a batch, if `options` has a transform.
ATTEND_API std::optional<uint64_t> draw_seed(const LoaderOptions& options, Sampler& sampler);

/// Returns the transformed batch, or `batch` if `options` has no transform.
ATTEND_API torch::data::Example<> transformed(const LoaderOptions& options,
                                              torch::data::Example<> batch,
                                              const BatchRequest& request);

}  // namespace attend::train
