#include "attend/train/trainer.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/nn/eval_guard.h"
#include "attend/nn/lora.h"
#include "attend/train/recipe.h"
#include "attend/train/sharded_optimizer.h"
#include "ops/rng_state.h"
#include "train/autocast_for.h"
#include "train/cpu_copies.h"
#include "train/device.h"
#include "train/process_memory.h"
#include "train/processes.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <fmt/format.h>
#include <torch/optim/lbfgs.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

namespace attend::train {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::map<std::string, torch::Tensor>;

// Names in checkpoints.
constexpr const char* kOptimizer = "optimizer.";
constexpr const char* kSampler = "sampler.";
const std::string kRandom = "random.";
constexpr const char* kObjective = "objective.";
constexpr const char* kScaler = "scaler.";
// Name of a uint8 tensor with one element per parameter: 1 if the parameter requires a gradient. A
// parameter that several modules share is counted once.
constexpr const char* kRequiresGrad = "requires_grad";

/// Returns the name under which checkpoints contain the state of a device's generator. The name
/// contains only the type of the device, since a run may be resumed on another GPU. The states of
/// processes other than rank 0 have names such as "random.cpu.1".
std::string rng_name(torch::Device device, int64_t rank = 0) {
  const auto name = kRandom + c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  return rank == 0 ? name : fmt::format("{}.{}", name, rank);
}

void add_with_prefix(Tensors& all, const std::string& prefix, const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors) all.emplace(prefix + name, tensor);
}

Tensors without_prefix(const Tensors& all, const std::string& prefix) {
  Tensors selected;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) selected.emplace(name.substr(prefix.size()), tensor);
  }
  return selected;
}

/// Measures the time until the end of the scope and adds it to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

/// Returns the metric of an evaluation, the higher the better; std::nullopt if there is none.
std::optional<double> score(const Evaluation& evaluation, BestMetric metric) {
  if (metric == BestMetric::loss) return -evaluation.loss;
  return metric == BestMetric::accuracy ? evaluation.accuracy() : evaluation.f1;
}

/// Returns the metric of an evaluation. Throws InputError if the evaluation does not have it.
double required_score(const Evaluation& evaluation, BestMetric metric) {
  if (const auto value = score(evaluation, metric)) return *value;
  throw InputError(
      fmt::format("best_metric is {}, which the evaluation does not have, expected loss{}",
                  to_string(metric), evaluation.accuracy() ? " or accuracy" : ""));
}

/// True if `best` is empty or does not have the metric, as in a run that followed another one, or
/// if the finite evaluation `last` is better. An earlier evaluation of the same value stays the
/// best.
bool is_better(const Evaluation& last, const std::optional<Evaluation>& best, BestMetric metric) {
  const auto value = required_score(last, metric);
  const auto best_value = best ? score(*best, metric) : std::nullopt;
  return std::isfinite(last.loss) && (!best_value || value > *best_value);
}

bool all_finite(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& item) {
    return torch::isfinite(item.second).all().template item<bool>();
  });
}

std::shared_ptr<Objective> checked(std::shared_ptr<Objective> objective) {
  TORCH_CHECK_VALUE(objective != nullptr, "Trainer requires an objective, found null");
  return objective;
}

/// Throws c10::ValueError unless `loss` is 0-dim. `name` and `expected` (a description) are used in
/// the message.
void check_is_scalar(const torch::Tensor& loss, const char* name, const char* expected) {
  TORCH_CHECK_VALUE(loss.defined(), "TrainingBatch::loss: `", name,
                    "` is undefined, expected a 0-dim tensor: ", expected);
  TORCH_CHECK_VALUE(loss.dim() == 0, "TrainingBatch::loss: `", name, "` has shape ", loss.sizes(),
                    ", expected a 0-dim tensor: ", expected);
}

void check_loss(const TrainingLoss& loss) {
  check_is_scalar(loss.sum, "sum", "the loss summed over the targets, for example with .sum()");
  if (loss.auxiliary.defined())
    check_is_scalar(loss.auxiliary, "auxiliary", "a term that is added to the mean loss");
  TORCH_CHECK_VALUE(
      loss.sum.requires_grad() || (loss.auxiliary.defined() && loss.auxiliary.requires_grad()),
      "TrainingBatch::loss: the loss requires no gradient, expected a loss that depends on the "
      "parameters of the module; compute it without detach() and NoGradGuard");
}

/// Returns the optimizer, or a new one if it is null.
std::shared_ptr<torch::optim::Optimizer> checked(std::shared_ptr<torch::optim::Optimizer> optimizer,
                                                 const std::vector<torch::Tensor>& parameters,
                                                 const torch::nn::Module& module,
                                                 const TrainingConfig& config) {
  if (optimizer == nullptr) return make_optimizer(module, config);
  TORCH_CHECK_VALUE(dynamic_cast<torch::optim::LBFGS*>(optimizer.get()) == nullptr,
                    "the optimizer is torch::optim::LBFGS, whose step() computes the loss several "
                    "times in a closure; expected an optimizer whose step() needs no closure, such "
                    "as SGD");
  for (const auto& group : optimizer->param_groups()) {
    const auto foreign = std::ranges::count_if(group.params(), [&](const auto& parameter) {
      return std::ranges::none_of(parameters,
                                  [&](const auto& each) { return each.is_same(parameter); });
    });
    TORCH_CHECK_VALUE(foreign == 0, foreign, " of ", group.params().size(),
                      " parameters in a group of the optimizer do not belong to the module ",
                      module.name(), ", expected only parameters of the module");
  }
  return optimizer;
}

std::vector<torch::Tensor> checked_parameters(const torch::nn::Module& module) {
  std::vector<torch::Tensor> parameters;
  // module.parameters() is not used, because it lists a shared parameter several times: the
  // gradient of the parameter would be clipped several times.
  for (const auto& parameter : trainable_parameters(module, /*include_frozen=*/true))
    parameters.push_back(parameter.tensor);
  TORCH_CHECK_VALUE(!parameters.empty(), "the module ", module.name(),
                    " has no parameters to train");
  return parameters;
}

std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

/// Scales the gradients so that the norm of all of them is at most `max_norm`, if it is not 0, and
/// returns the norm that they had. Does the same as torch::nn::utils::clip_grad_norm_, which on a
/// GPU starts two kernels per parameter: in a small model, these take a large part of a step.
double clip_gradients(const std::vector<torch::Tensor>& gradients, double max_norm) {
  if (gradients.empty()) return 0.0;
  if (max_norm == 0.0) max_norm = INFINITY;
  const torch::NoGradGuard no_grad;
  const auto norm = torch::stack(at::_foreach_norm(gradients, 2)).norm();
  at::_foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp_max(1.0));
  return norm.item<double>();
}

/// Returns, for each parameter, whether it requires a gradient.
std::vector<bool> require_grad(const std::vector<torch::Tensor>& parameters) {
  std::vector<bool> result;
  for (const auto& parameter : parameters) result.push_back(parameter.requires_grad());
  return result;
}

/// Returns the number of CPU threads of each of `processes` processes on this machine.
int64_t available_threads(int64_t processes) {
  const int64_t threads = torch::get_num_threads();
  // A launcher such as torchrun sets the variable for each process.
  if (processes == 1 || std::getenv("OMP_NUM_THREADS") != nullptr) return threads;
  const int64_t cores = std::thread::hardware_concurrency();
  return std::min(threads, std::max<int64_t>(cores / processes, 1));
}

/// True if an evaluation follows `step`.
bool is_evaluation_step(const TrainingConfig& config, int64_t step) {
  return step % config.eval_every == 0 || step == config.max_steps;
}

bool is_report_step(const TrainingConfig& config, int64_t step) {
  return is_evaluation_step(config, step) || step % config.log_every == 0;
}

bool is_out_of_patience(const TrainingConfig& config, const TrainerState& state) {
  return config.patience > 0 && state.evaluations_without_improvement >= config.patience;
}

/// True if all steps are done, or after early stopping.
bool is_done(const TrainingConfig& config, const TrainerState& state) {
  return !state.evaluation_pending &&
         (state.step >= config.max_steps || is_out_of_patience(config, state));
}

double seconds_left(const TrainingConfig& config, const TrainerState& state) {
  const auto steps = static_cast<double>(state.step);
  const auto steps_left = static_cast<double>(config.max_steps) - steps;
  const auto done = (state.step - (state.evaluation_pending ? 1 : 0)) / config.eval_every;
  const auto evaluations_left =
      (config.max_steps + config.eval_every - 1) / config.eval_every - done;
  const double seconds_per_evaluation =
      done == 0 ? 0.0 : state.evaluation_seconds / static_cast<double>(done);
  return state.training_seconds / steps * steps_left +
         seconds_per_evaluation * static_cast<double>(evaluations_left);
}

}  // namespace

Trainer::Trainer(std::shared_ptr<Objective> objective, const TrainingConfig& config,
                 Schedule schedule, std::shared_ptr<torch::optim::Optimizer> optimizer,
                 std::shared_ptr<Processes> processes, bool shard_optimizer)
    : objective_(checked(std::move(objective))),
      config_(config),
      schedule_(std::move(schedule)),
      parameters_(checked_parameters(module())),
      device_(parameters_.front().device()),
      optimizer_(checked(std::move(optimizer), parameters_, module(), config)),
      processes_(std::move(processes)),
      sampler_(static_cast<uint64_t>(config.seed)) {
  check_training_config(config);
  check_processes(processes_, config);
  if (config.precision == Precision::fp16) scaler_.emplace();
  const bool is_sharded = std::dynamic_pointer_cast<ShardedOptimizer>(optimizer_) != nullptr;
  if (shard_optimizer && !is_sharded && processes_->world_size() > 1) {
    auto whole = std::dynamic_pointer_cast<Optimizer>(optimizer_);
    TORCH_CHECK_VALUE(whole, "shard_optimizer: found the optimizer ", optimizer_name(*optimizer_),
                      ", expected one of this library");
    optimizer_ = std::make_shared<ShardedOptimizer>(std::move(whole), processes_);
  }
  if (!schedule_) schedule_ = [config](int64_t step) { return lr_at(config, step); };
  // Each process has other random numbers, for dropout. All samplers draw the same.
  torch::manual_seed(static_cast<uint64_t>(config.seed + processes_->rank()));
  objective_->set_processes(processes_);
}

TrainResult Trainer::run(const TrainerHooks& all_hooks) {
  auto hooks = all_hooks;
  if (processes_->rank() > 0) {
    hooks.observers.clear();
    hooks.checkpoint_sink = nullptr;
  }
  for (const auto* observer : hooks.observers)
    TORCH_CHECK_VALUE(observer != nullptr,
                      "Trainer requires observers that are not null, found null");
  module().train();
  restore_from_rank_0(*processes_, *this);
  trained_ = require_grad(parameters_);
  if (hooks.checkpoint_sink != nullptr && !best_weights_.empty())
    hooks.checkpoint_sink->save_best(best_weights_);
  train(hooks);
  if (hooks.checkpoint_sink != nullptr) hooks.checkpoint_sink->finish();
  for (auto* observer : hooks.observers) observer->on_finish();
  TrainResult result{.state = state_, .stop_reason = StopReason::stop_requested};
  if (is_done(config_, state_)) {
    if (!state_.best) {
      throw std::runtime_error(fmt::format(
          "no evaluation in {} steps had a finite validation loss; try a lower lr", state_.step));
    }
    result.stop_reason =
        is_out_of_patience(config_, state_) ? StopReason::patience : StopReason::max_steps;
  }
  if (state_.training_seconds > 0.0)
    result.tokens_per_second = static_cast<double>(state_.tokens) / state_.training_seconds;
  return result;
}

void Trainer::train(const TrainerHooks& hooks) {
  if (is_done(config_, state_)) return;
  const KeepFreedMemoryGuard memory;
  // Before the first step, whose activations need memory, too.
  if (auto* sharded = dynamic_cast<ShardedOptimizer*>(optimizer_.get())) sharded->distribute();
  state_.threads = num_threads();
  const NumThreadsGuard threads(state_.threads);
  for (bool ends = false; !ends;) {
    if (!state_.evaluation_pending) {
      step(hooks);
      if (is_report_step(config_, state_.step)) report(hooks);
    }
    if (state_.evaluation_pending) {
      evaluate(hooks);
      state_ = broadcast(*processes_, state_);
    }
    const bool stop = hooks.stop_requested && hooks.stop_requested();
    ends = any_process(*processes_, state_.evaluation_pending || stop) || is_done(config_, state_);
    if (hooks.checkpoint_sink != nullptr) hooks.checkpoint_sink->check();
    if (ends || state_.step % config_.checkpoint_every == 0) save(hooks);
  }
}

int64_t Trainer::num_threads() {
  if (config_.threads > 0) return config_.threads;
  const auto available = available_threads(processes_->local_world_size());
  // A resumed run uses the same number of threads as before, unless LibTorch now has fewer threads.
  if (state_.threads > 0 && state_.threads <= available) return state_.threads;
  // Of several processes, each would measure while the others wait for it in the measured work.
  if (available == 1 || !device_.is_cpu() || processes_->world_size() > 1) return available;
  const auto before = checkpoint();
  const auto work = [&] { forward_backward(draw(1)); };
  const auto fastest =
      fastest_num_threads([&](int64_t threads) { return mean_seconds(work, threads); }, available);
  module().zero_grad();
  restore(before);
  return fastest;
}

void Trainer::step(const TrainerHooks& hooks) {
  const Stopwatch watch(state_.training_seconds);
  progress_.lr = schedule_(state_.step);
  others_.clear();
  broadcast_buffers(*processes_, module());
  forward_backward(draw(config_.gradient_accumulation_steps));
  const auto gradients = gradients_of(parameters_);
  if (scaler_) scaler_->unscale(gradients);
  progress_.grad_norm = clip_gradients(gradients, config_.max_grad_norm);
  // All processes have the same loss and gradients, so they skip the same steps.
  const bool is_finite = std::isfinite(state_.train_loss) && std::isfinite(progress_.grad_norm);
  // A smaller scale helps gradients that overflow in float16, but not a loss.
  const bool scale_is_large =
      scaler_ && scaler_->factor() > 1.0 && std::isfinite(state_.train_loss);
  if (is_finite) {
    set_lr(*optimizer_, progress_.lr);
    optimizer_->step();
  } else {
    skip_step(hooks, scale_is_large);
  }
  if (scaler_ && (is_finite || scale_is_large)) scaler_->update(is_finite);
  ++state_.step;
  state_.evaluation_pending = is_evaluation_step(config_, state_.step);
}

Trainer::Batches Trainer::draw(int64_t count) {
  const auto trained = require_grad(parameters_);
  TORCH_CHECK_VALUE(std::ranges::count(trained, true) > 0, "all ", parameters_.size(),
                    " parameters of the module ", module().name(),
                    " are frozen, expected at least one that requires a gradient; call "
                    "attend::unfreeze");
  const auto size = processes_->world_size();
  std::vector<TrainingBatch> own;
  int64_t own_targets = 0;
  int64_t own_tokens = 0;
  for (int64_t i = 0; i < count; ++i) {
    // The parts of the other processes are drawn too, so that all samplers stay equal.
    for (int64_t rank = 0; rank < size; ++rank) {
      const auto begin = config_.batch_size * rank / size;
      const auto end = config_.batch_size * (rank + 1) / size;
      auto batch = objective_->training_batch(end - begin, sampler_);
      if (rank == processes_->rank()) own.push_back(std::move(batch));
    }
    const auto& batch = own.back();
    TORCH_CHECK_VALUE(batch.num_targets >= 0, "training_batch: found ", batch.num_targets,
                      " targets, expected 0 or more");
    TORCH_CHECK_VALUE(batch.loss != nullptr,
                      "training_batch: found no `loss`, expected a function");
    own_targets += batch.num_targets;
    own_tokens += batch.num_tokens;
  }
  auto sums = torch::tensor({own_targets, own_tokens, int64_t{trained != trained_}}, torch::kLong);
  processes_->all_reduce(sums);
  const auto targets = sums[0].item<int64_t>();
  trained_ = trained;
  check_equally_trained(*processes_, trained, sums[2].item<int64_t>(), state_.step + 1);
  state_.tokens += sums[1].item<int64_t>();
  TORCH_CHECK_VALUE(targets > 0, "training_batch: found 0 targets in the ", count,
                    " batches of step ", state_.step + 1,
                    ", expected at least 1; set TrainingBatch::num_targets to the number of terms "
                    "that the loss sums up");
  return {std::move(own), targets};
}

void Trainer::forward_backward(const Batches& batches) {
  module().zero_grad();
  // Each loss sum is divided by the number of targets in all batches, so that all targets have the
  // same weight. In a mean of the batches' means, the targets of a batch with few targets would
  // weigh more.
  auto mean = torch::zeros({}, torch::TensorOptions(device_).dtype(torch::kDouble));
  ExactMatch matches;
  for (const auto& batch : batches.own) {
    const LoraWeightsGuard adapters(module());  // also for `checkpoint` in the backward pass
    auto loss = [&] {
      const AutocastGuard autocast(device_.type(), autocast_for(config_.precision, device_.type()));
      return batch.loss();
    }();
    check_loss(loss);
    if (is_report_step(config_, state_.step + 1) && loss.exact_match) matches += loss.exact_match();
    loss.exact_match = {};  // may own the logits, which the backward pass does not need
    auto scaled = loss.sum / static_cast<double>(batches.num_targets);
    mean += scaled.detach();
    if (loss.auxiliary.defined()) {
      scaled = scaled + loss.auxiliary /
                            static_cast<double>(std::ssize(batches.own) * processes_->world_size());
    }
    if (scaler_) scaled = scaler_->scale(scaled);
    processes_->backward(scaled, parameters_, /*all_reduce=*/&batch == &batches.own.back());
  }
  auto sums = torch::stack({mean.cpu(), torch::tensor(matches.correct, torch::kDouble),
                            torch::tensor(matches.total, torch::kDouble)});
  processes_->all_reduce(sums);
  state_.train_loss = sums[0].item<double>();
  progress_.accuracy = ExactMatch{sums[1].item<int64_t>(), sums[2].item<int64_t>()}.accuracy();
}

void Trainer::skip_step(const TrainerHooks& hooks, bool scale_is_large) {
  // Skipping the step does not help if the weights themselves are not finite. Buffers may differ
  // between the processes.
  const bool weights_are_finite = !any_process(*processes_, !all_finite(state_dict(module())));
  if (weights_are_finite && (scale_is_large || config_.on_nonfinite == OnNonFinite::skip)) {
    ++state_.skipped_steps;
    return;
  }
  const auto latest =
      hooks.checkpoint_sink == nullptr ? std::string() : hooks.checkpoint_sink->latest_path();
  const auto message = fmt::format(
      "non-finite loss or gradient at step {}: train_loss {}, grad_norm {}, lr {:.3g}{}; latest "
      "checkpoint: {}; try a lower lr{}",
      state_.step + 1, state_.train_loss, progress_.grad_norm, progress_.lr,
      weights_are_finite ? "" : ", and the weights are not finite",
      latest.empty() ? "none" : latest, weights_are_finite ? " or on_nonfinite = skip" : "");
  throw std::runtime_error(broadcast(*processes_, message));  // only rank 0 knows the checkpoint
}

void Trainer::report(const TrainerHooks& hooks) {
  progress_.step = state_.step;
  progress_.train_loss = state_.train_loss;
  progress_.seconds = state_.seconds();
  progress_.seconds_left = seconds_left(config_, state_);
  progress_.tokens_per_second = static_cast<double>(state_.tokens - reported_tokens_) /
                                (state_.training_seconds - reported_seconds_);
  progress_.peak_memory = peak_memory();
  progress_.skipped_steps = state_.skipped_steps;
  if (scaler_) progress_.loss_scale = scaler_->factor();
  reported_tokens_ = state_.tokens;
  reported_seconds_ = state_.training_seconds;
  for (auto* observer : hooks.observers) observer->on_progress(progress_);
}

void Trainer::evaluate(const TrainerHooks& hooks) {
  broadcast_buffers(*processes_, module());
  bool stopped = false;
  const auto stop = [&] {
    stopped = stopped || (hooks.stop_evaluation && hooks.stop_evaluation());
    return stopped;
  };
  const auto result = [&] {
    const Stopwatch watch(state_.evaluation_seconds);
    const EvalGuard eval(module());
    const torch::NoGradGuard no_grad;
    const AutocastGuard autocast(device_.type(), autocast_for(config_.precision, device_.type()));
    const LoraWeightsGuard adapters(module());
    return objective_->evaluate(
        {.max_batches = config_.eval_batches, .stop_requested = stop, .processes = processes_});
  }();
  if (any_process(*processes_, stopped) || processes_->rank() > 0) return;
  state_.evaluation_pending = false;
  state_.last = result;
  ++state_.evaluations_without_improvement;
  if (is_better(*state_.last, state_.best, config_.best_metric)) {
    state_.last->is_best = true;
    state_.best = state_.last;
    state_.best_step = state_.step;
    state_.evaluations_without_improvement = 0;
    best_weights_ = saved_weights();
    if (hooks.checkpoint_sink != nullptr) hooks.checkpoint_sink->save_best(best_weights_);
  }
  for (auto* observer : hooks.observers) observer->on_evaluation(state_.step, *state_.last);
}

/// Saves a checkpoint if all weights are finite, so that a good checkpoint is not replaced by a bad
/// one. The last optimizer step may have produced non-finite weights, which only the next loss
/// would show.
void Trainer::save(const TrainerHooks& hooks) {
  collect_others();
  if (hooks.checkpoint_sink == nullptr) return;
  const auto now = checkpoint();
  if (all_finite(now.weights)) hooks.checkpoint_sink->save(now);
}

void Trainer::collect_others() {
  others_.clear();
  for (const auto& [device, state] : rng_state(rng_devices(device_))) {
    auto states = torch::zeros({processes_->world_size(), state.numel()}, torch::kByte);
    states[processes_->rank()].copy_(state);
    processes_->all_reduce(states);
    for (int64_t rank = 1; rank < states.size(0); ++rank)
      others_.emplace(rng_name(device, rank), states[rank].clone());
  }
  if (const auto* sharded = dynamic_cast<const ShardedOptimizer*>(optimizer_.get()))
    add_with_prefix(others_, kOptimizer, sharded->named_state_of_others());
}

std::map<std::string, torch::Tensor> Trainer::saved_weights() const {
  auto weights = state_dict(module());
  std::erase_if(weights, [&](const auto& item) { return !objective_->saves(item.first); });
  return cpu_copies(weights);
}

Checkpoint Trainer::checkpoint() const {
  std::vector<uint8_t> requires_grad;
  for (const auto& parameter : parameters_) requires_grad.push_back(parameter.requires_grad());
  Checkpoint checkpoint{.trainer_state = state_,
                        .weights = saved_weights(),
                        .state = {{kRequiresGrad, torch::tensor(requires_grad, torch::kByte)}},
                        .best = best_weights_};
  add_with_prefix(checkpoint.state, kOptimizer, cpu_copies(state_of(*optimizer_)));
  add_with_prefix(checkpoint.state, kSampler, sampler_.state());  // returns copies
  for (const auto& [device, state] : rng_state(rng_devices(device_))) {
    checkpoint.state.emplace(rng_name(device, processes_->rank()), state);
  }
  checkpoint.state.insert(others_.begin(), others_.end());
  add_with_prefix(checkpoint.state, kObjective, cpu_copies(objective_->state()));
  if (scaler_) add_with_prefix(checkpoint.state, kScaler, scaler_->state());
  return checkpoint;
}

void Trainer::restore(const Checkpoint& checkpoint) {
  auto weights = checkpoint.weights;
  for (const auto& [name, tensor] : state_dict(module())) {
    if (!objective_->saves(name)) weights.emplace(name, tensor);
  }
  load_state_dict(module(), weights);
  const auto requires_grad = checkpoint.state.find(kRequiresGrad);
  const auto count = static_cast<int64_t>(parameters_.size());
  if (requires_grad == checkpoint.state.end() || requires_grad->second.numel() != count) {
    throw InputError(
        fmt::format("the checkpoint's '{}' must have exactly one element for each of the {} "
                    "parameters",
                    kRequiresGrad, count));
  }
  for (int64_t i = 0; i < count; ++i) {
    parameters_[static_cast<std::size_t>(i)].set_requires_grad(
        requires_grad->second[i].item<bool>());
  }
  load_state_of(*optimizer_, without_prefix(checkpoint.state, kOptimizer));
  sampler_.load_state(without_prefix(checkpoint.state, kSampler));
  others_.clear();
  for (const auto& [name, state] : checkpoint.state) {
    if (name.starts_with(kRandom)) others_.emplace(name, state);
  }
  for (const auto& device : rng_devices(device_)) {
    // A checkpoint that was saved during training on the CPU has no state for a GPU's generator. A
    // checkpoint also has no state for a process that has not trained yet.
    if (const auto saved = others_.extract(rng_name(device, processes_->rank())))
      set_generator_state(device, saved.mapped());
  }
  objective_->load_state(without_prefix(checkpoint.state, kObjective));
  // A run in another precision has no scale.
  const auto scaler = without_prefix(checkpoint.state, kScaler);
  if (scaler_ && !scaler.empty()) scaler_->load_state(scaler);
  state_ = checkpoint.trainer_state;
  best_weights_ = cpu_copies(checkpoint.best);
  reported_seconds_ = state_.training_seconds;
  reported_tokens_ = state_.tokens;
}

int64_t world_size_of(const Checkpoint& checkpoint) {
  const auto cpu = rng_name(torch::kCPU);
  return std::ranges::count_if(checkpoint.state, [&](const auto& item) {
    return item.first == cpu || item.first.starts_with(cpu + '.');
  });
}

}  // namespace attend::train
