#pragma once

#include "attend/api.h"
#include "attend/train/evaluation.h"
#include "attend/train/processes.h"
#include "attend/train/sampler.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// The loss of a `TrainingBatch`.
struct TrainingLoss {
  torch::Tensor sum;  ///< 0-dim: the sum of the loss over the batch's targets, not the mean
  torch::Tensor auxiliary =
      {};  ///< 0-dim: added to the mean loss, e.g. a load-balancing loss; optional
  /// Counts the correct predictions. In training, called only at steps whose metrics are reported
  /// to observers. Optional.
  std::function<ExactMatch()> exact_match = {};
};

/// A training batch, drawn by an `Objective`.
struct TrainingBatch {
  int64_t num_targets = 0;  ///< number of targets over which the loss is summed; may be 0 if
                            ///< another batch of the same step has targets
  int64_t num_tokens = 0;   ///< number of tokens without padding, or of samples if the data has no
                            ///< tokens; counted in `Progress::tokens_per_second`
  /// Returns the loss of the batch. The function contains the data of the batch, of any type, and
  /// moves it to the module's device. Called in train mode, and under autocast to bfloat16 or
  /// float16 if the precision is bf16 or fp16. If the precision is fp32, the autocast state is that
  /// of the code that called `Trainer::run`. The trainer divides `TrainingLoss::sum` by the number
  /// of targets in all batches of the step. All targets therefore count equally, also with gradient
  /// accumulation.
  std::function<TrainingLoss()> loss;
};

/// Called after each batch of an evaluation with the number of evaluated batches and the number of
/// all batches of the evaluation. With several processes, which evaluate a batch each at the same
/// time, called in all of them.
using BatchCallback = std::function<void(int64_t done, int64_t count)>;

/// Options of `Objective::evaluate`.
struct EvaluationOptions {
  int64_t max_batches = 0;  ///< maximum number of batches of `kEvalBatchSize` sequences or samples,
                            ///< spread evenly over the validation data; 0 = all validation data
  /// Called between batches. If it returns true, `Objective::evaluate` may return at once. The
  /// trainer then ignores the result, and evaluates again when training continues.
  std::function<bool()> stop_requested = [] { return false; };
  BatchCallback on_batch = {};  ///< called after each batch; optional
  /// The processes that evaluate together. All of them call `Objective::evaluate`, with equal
  /// weights. An objective that ignores them evaluates all batches in each process.
  std::shared_ptr<Processes> processes = single_process();
};

/// Evaluates batches for `Objective::evaluate`, as the options say. `evaluate` returns the results
/// of the batch with this index, from 0 to `num_batches` - 1; its `loss` is the sum over the
/// targets. Several processes evaluate different batches; the result is that of all of them, and
/// has the same bits as that of a single process. The function stops in all processes if
/// `stop_requested` returns true in one of them.
ATTEND_API Evaluation evaluate_in_batches(int64_t num_batches, const EvaluationOptions& options,
                                          const std::function<Evaluation(int64_t index)>& evaluate);

/// Evaluates `count` samples in batches of `kEvalBatchSize`, with `evaluate_in_batches`. `loss`
/// returns the loss of the samples with these indices, from 0 to `count` - 1.
ATTEND_API Evaluation
evaluate_samples(int64_t count, const EvaluationOptions& options,
                 const std::function<TrainingLoss(const std::vector<std::size_t>& indices)>& loss);

/// Base class of training objectives for a `Trainer`: module, training data, loss and evaluation,
/// as in a LightningModule. Derive from it to train a custom module. `TaskObjective` implements it
/// for the models of this library, `DatasetObjective` for any module with datasets of torch::data,
/// and `StreamObjective` for any module with a stream of examples.
///
///     struct Denoising : Objective {
///       torch::nn::Module& module() override { return *net; }
///       TrainingBatch training_batch(int64_t size, Sampler& sampler) override {
///         auto x = images.index({sampler.rows(images.size(0), size)});
///         return {.num_targets = size, .num_tokens = size, .loss = [=, this]() -> TrainingLoss {
///           return {(net(x + 0.1 * torch::randn_like(x)) - x).square().mean({1, 2, 3}).sum()};
///         }};
///       }
///       Evaluation evaluate(const EvaluationOptions&) override {
///         return {.loss = validation_loss()};
///       }
///     };
class ATTEND_API Objective {
 public:
  virtual ~Objective() = default;

  /// The module that is trained. It must have at least one parameter.
  virtual torch::nn::Module& module() = 0;

  /// Returns the next batch of `size` samples. Which samples these are may depend only on `sampler`
  /// and, for example for an offset in a file, on the state that `state()` returns. Several
  /// processes call `training_batch` equally, for the parts of all processes, and each computes the
  /// loss of one part. All of them must therefore draw the same numbers from `sampler` and have the
  /// same `state()`, whereas their global generators differ. `TrainingBatch::loss` may also draw
  /// from LibTorch's global generators, for example for noise. For exact resuming, use no other
  /// random numbers: checkpoints contain the states of `sampler` and of the global generators.
  virtual TrainingBatch training_batch(int64_t size, Sampler& sampler) = 0;

  /// Evaluates the module on the validation data. Called in eval mode, without gradients, and with
  /// the same autocast state as `TrainingBatch::loss`. See `evaluate_in_batches`.
  virtual Evaluation evaluate(const EvaluationOptions& options) = 0;

  /// Returns false for tensors of the module's state dict that checkpoints and best weights do not
  /// contain: frozen weights that have their values before training starts or resumes, such as
  /// those of the base model of adapters. By default, returns true.
  virtual bool saves(const std::string& /*name*/) const { return true; }

  /// Called by `Trainer` with the processes that train together. An objective needs them if its
  /// loss depends on the whole batch, of which `TrainingBatch::loss` has the part of one process.
  /// By default, does nothing.
  virtual void set_processes(std::shared_ptr<Processes> /*processes*/) {}
  /// Returns a few samples of the data and its sizes, by name. `TrainingRun` refuses processes
  /// whose samples differ. Empty by default. Random transforms may draw only from LibTorch's global
  /// generators, which have the same state in all processes.
  virtual std::map<std::string, torch::Tensor> data_samples() { return {}; }

  /// Returns further state to save in checkpoints, by name. Empty by default.
  virtual std::map<std::string, torch::Tensor> state() const { return {}; }
  /// Restores the state returned by `state()`.
  virtual void load_state(const std::map<std::string, torch::Tensor>& /*state*/) {}
};

}  // namespace attend::train
