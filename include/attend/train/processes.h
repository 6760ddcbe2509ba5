#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace attend::train {

/// The processes that train one module together (data parallelism), as seen from one of them. Each
/// process has a copy of the module, computes the gradients of its part of each batch, and makes
/// the same optimizer step with the sums of all gradients. `distributed::init` returns the
/// processes that a launcher such as torchrun has started.
///
/// All processes call the same functions in the same order; each call waits for the others. The
/// functions throw std::runtime_error if another process has ended, or does not answer in time.
class ATTEND_API Processes {
 public:
  virtual ~Processes() = default;

  /// Number of this process, 0 to size() - 1. Rank 0 writes the run directory.
  virtual int64_t rank() const = 0;
  /// Number of processes on all machines.
  virtual int64_t size() const = 0;
  /// Number of processes on this machine, which share its cores.
  virtual int64_t local_size() const = 0;

  /// Replaces `tensor` by the sum of the tensors of all processes. They have the same shape and
  /// dtype.
  virtual void sum(torch::Tensor& tensor) = 0;
  /// Replaces the values of `tensor`, a contiguous tensor, by those of rank 0. The tensors have the
  /// same shape and dtype.
  virtual void broadcast(torch::Tensor& tensor) = 0;
  /// Makes the next `loss.backward()` replace the gradients of `parameters` by their sums over all
  /// processes. The sums include what earlier backward passes have added to the gradients. The
  /// gradient of a parameter on which no process's loss depends stays undefined.
  virtual void sum_gradients_in_backward(const std::vector<torch::Tensor>& parameters,
                                         const torch::Tensor& loss) = 0;
};

/// Returns a process that trains alone: `size()` is 1, and the functions do nothing.
ATTEND_API std::shared_ptr<Processes> single_process();

}  // namespace attend::train
