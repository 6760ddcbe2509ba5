#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// The processes that train one module together (data parallelism), as seen from one of them. Each
/// process has a copy of the module, computes the gradients of its part of each batch, and makes
/// the same optimizer step with the sums of all gradients. `distributed::init` returns the
/// processes that a launcher such as torchrun has started.
///
/// All processes call the same functions in the same order; each call waits for the others. If
/// another process has ended, or does not answer in time, the functions throw std::runtime_error;
/// the message is the same in all processes, and names the rank as far as it is known.
class ATTEND_API Processes {
 public:
  virtual ~Processes() = default;

  /// Number of this process, 0 to world_size() - 1. Rank 0 writes the run directory.
  virtual int64_t rank() const = 0;
  /// Number of processes on all machines.
  virtual int64_t world_size() const = 0;
  /// Number of processes on this machine, which share its cores.
  virtual int64_t local_world_size() const = 0;

  /// Replaces `tensor` by the sum of the tensors of all processes. They have the same shape and
  /// dtype.
  virtual void all_reduce(torch::Tensor& tensor) = 0;
  /// Replaces the values of `tensor`, a contiguous tensor, by those of the process `root`. The
  /// tensors have the same shape and dtype.
  virtual void broadcast(torch::Tensor& tensor, int64_t root) = 0;
  /// Calls `loss.backward()`. With `all_reduce`, also replaces the gradients of `parameters` by
  /// their sums over all processes. For gradient accumulation, call `backward` without `all_reduce`
  /// for all batches of a step but the last one, with the same parameters: the sums include what
  /// these calls have added to the gradients. The gradient of a parameter on which no loss of a
  /// process depends stays undefined.
  virtual void backward(const torch::Tensor& loss, const std::vector<torch::Tensor>& parameters,
                        bool all_reduce) = 0;
  /// Tells the others that this process ends because of an error with this message: the functions
  /// that they call throw. Call it with the message of an exception that ends the process; without
  /// it, the others only know that the process does not answer. Returns false if rank 0 ends with
  /// the same message, or with one that begins with it, so that the message need not be printed
  /// again. Waits for rank 0 for a few seconds. No other function may be called afterwards.
  virtual bool end_with_error(const std::string& message) = 0;
};

/// Returns a process that trains alone: `world_size()` is 1, and the functions do nothing.
ATTEND_API std::shared_ptr<Processes> single_process();

/// True in all processes if `value` is true in at least one.
ATTEND_API bool any_process(Processes& processes, bool value);

/// Calls `work` in rank 0 while the other processes wait. If it throws InputError, the others throw
/// InputError with the same message, also for c10::ValueError; for another exception,
/// std::runtime_error with its message.
ATTEND_API void run_on_rank_0(Processes& processes, const std::function<void()>& work);

}  // namespace attend::train
