#pragma once

#include "attend/api.h"
#include "attend/train/optimizer.h"
#include "attend/train/processes.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace attend::train {

/// Distributes the state of an optimizer over processes that train together (ZeRO stage 1,
/// Rajbhandari et al. 2020), as ZeroRedundancyOptimizer of PyTorch does: each process updates only
/// its own parameters and sends them to the others. The first step, or `distribute`, deletes the
/// state of all other parameters. A parameter belongs to one process as a whole; the parts have
/// about the same size, unless a single parameter is larger.
///
/// All processes call `step`; the parameters, their gradients and the state before the first step
/// must be the same in all of them. Results have the same bits as those of the optimizer itself.
/// `named_state` returns the whole state before the first step, and the part of this process after
/// it; `load_named_state` expects the whole state, until the next step. `Trainer` uses a
/// ShardedOptimizer with `shard_optimizer`.
///
///     ShardedOptimizer optimizer(make_optimizer(model, config), processes);
///     processes->backward(loss, parameters, /*all_reduce=*/true);
///     optimizer.step();
class ATTEND_API ShardedOptimizer : public Optimizer {
 public:
  ShardedOptimizer(std::shared_ptr<Optimizer> optimizer, std::shared_ptr<Processes> processes);

  /// Deletes the state of the parameters of other processes, as the first step does.
  void distribute();
  void load_named_state(const std::map<std::string, torch::Tensor>& state) override;
  /// Returns the named state that only the other processes have, on the CPU. All processes call it;
  /// the result is empty except in rank 0.
  std::map<std::string, torch::Tensor> named_state_of_others() const;

 protected:
  void update(double lr) override;
  std::vector<Slot*> slots() const override;

 private:
  std::shared_ptr<Optimizer> optimizer_;
  std::shared_ptr<Processes> processes_;
  // The slots of `optimizer_`, each with the process that updates its parameter.
  std::vector<std::pair<Slot*, int64_t>> owners_;
  bool is_whole_ = true;  // until `distribute`
};

}  // namespace attend::train
