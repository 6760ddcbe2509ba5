#include "attend/train/trainer.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/nn/eval_guard.h"
#include "attend/train/recipe.h"
#include "nn/autocast_guard.h"
#include "ops/rng_state.h"
#include "train/process_memory.h"

#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace attend::train {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::map<std::string, torch::Tensor>;

/// Adds its lifetime to a number of seconds.
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

Tensors cpu_copies(const Tensors& tensors) {
  Tensors copies;
  for (const auto& [name, tensor] : tensors) {
    copies.emplace(name, tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

bool all_finite(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& item) {
    return torch::isfinite(item.second).all().template item<bool>();
  });
}

TrainingConfig checked(const TrainingConfig& config) {
  check_training_config(config);
  return config;
}

std::shared_ptr<Objective> checked(std::shared_ptr<Objective> objective) {
  TORCH_CHECK_VALUE(objective != nullptr, "Trainer requires an objective, found null");
  return objective;
}

std::vector<torch::Tensor> checked_parameters(const torch::nn::Module& module) {
  std::vector<torch::Tensor> parameters;
  // Not module.parameters(), which lists a shared parameter several times: its gradient would be
  // clipped several times.
  for (const auto& parameter : trainable_parameters(module, /*include_frozen=*/true))
    parameters.push_back(parameter.tensor);
  TORCH_CHECK_VALUE(!parameters.empty(), "the module ", module.name(),
                    " has no parameters to train");
  return parameters;
}

constexpr const char* kOptimizer = "optimizer.";
constexpr const char* kSampler = "sampler.";
constexpr const char* kRandom = "random.";
constexpr const char* kObjective = "objective.";
constexpr const char* kRequiresGrad =
    "requires_grad";  // uint8, one per parameter, shared ones once

}  // namespace

Trainer::Trainer(std::shared_ptr<Objective> objective, const TrainingConfig& config,
                 Schedule schedule)
    : objective_(checked(std::move(objective))),
      config_(checked(config)),
      schedule_(std::move(schedule)),
      parameters_(checked_parameters(module())),
      device_(parameters_.front().device()),
      optimizer_(make_optimizer(module(), config)),
      sampler_(static_cast<uint64_t>(config.seed)) {
  if (!schedule_) schedule_ = [config](int64_t step) { return lr_at(config, step); };
  torch::manual_seed(static_cast<uint64_t>(config.seed));
}

TrainResult Trainer::run(const TrainerHooks& hooks) {
  module().train();
  if (hooks.checkpoint_sink != nullptr && !best_weights_.empty())
    hooks.checkpoint_sink->save_best(best_weights_);
  TrainResult result;
  const auto done = [&] { return state_.step >= config_.max_steps || is_out_of_patience(); };
  int64_t saved_step = state_.step;
  while (!done() && result.stop_reason != StopReason::stop_requested) {
    step(hooks);
    if (is_report_step()) report(hooks);
    if (is_evaluation_step()) evaluate(hooks);
    if (hooks.stop_requested && hooks.stop_requested())
      result.stop_reason = StopReason::stop_requested;
    if (hooks.checkpoint_sink != nullptr && state_.step % config_.checkpoint_every == 0) {
      save(hooks);
      saved_step = state_.step;
    }
  }
  if (hooks.checkpoint_sink != nullptr && saved_step != state_.step) save(hooks);
  for (auto* observer : hooks.observers) observer->on_finish();
  if (done() && !state_.best) {
    throw std::runtime_error(fmt::format(
        "no evaluation in {} steps had a finite validation loss; try a lower lr", state_.step));
  }
  if (done())
    result.stop_reason = is_out_of_patience() ? StopReason::patience : StopReason::max_steps;
  result.state = state_;
  result.tokens_per_second = static_cast<double>(state_.tokens) / state_.training_seconds;
  return result;
}

/// True if an evaluation follows the current step.
bool Trainer::is_evaluation_step() const {
  return state_.step % config_.eval_every == 0 || state_.step == config_.max_steps;
}

bool Trainer::is_report_step() const {
  return is_evaluation_step() || state_.step % config_.log_every == 0;
}

void Trainer::step(const TrainerHooks& hooks) {
  const Stopwatch watch(state_.training_seconds);
  const double max_norm = config_.max_grad_norm > 0 ? config_.max_grad_norm : INFINITY;
  progress_.lr = schedule_(state_.step);
  progress_.step = ++state_.step;
  accumulate_gradients();
  progress_.grad_norm = torch::nn::utils::clip_grad_norm_(parameters_, max_norm);
  state_.train_loss = progress_.train_loss;
  if (std::isfinite(progress_.train_loss) && std::isfinite(progress_.grad_norm)) {
    optimizer_->step(progress_.lr);
  } else {
    // Skipping the step does not repair weights that are not finite.
    const bool weights_are_finite = all_finite(state_dict(module()));
    if (!weights_are_finite || config_.on_nonfinite == OnNonFinite::stop)
      throw_nonfinite(hooks, weights_are_finite);
    ++state_.skipped_steps;
  }
}

void Trainer::throw_nonfinite(const TrainerHooks& hooks, bool weights_are_finite) const {
  const auto latest =
      hooks.checkpoint_sink == nullptr ? std::string() : hooks.checkpoint_sink->latest_path();
  throw std::runtime_error(fmt::format(
      "non-finite loss or gradient at step {}: train_loss {}, grad_norm {}, lr {:.3g}{}; latest "
      "checkpoint: {}; try a lower lr{}",
      progress_.step, progress_.train_loss, progress_.grad_norm, progress_.lr,
      weights_are_finite ? "" : ", and the weights are not finite",
      latest.empty() ? "none" : latest, weights_are_finite ? " or on_nonfinite = skip" : ""));
}

void Trainer::accumulate_gradients() {
  optimizer_->zero_grad();
  std::vector<TrainingBatch> batches;
  int64_t targets = 0;
  for (int64_t i = 0; i < config_.gradient_accumulation_steps; ++i) {
    batches.push_back(objective_->training_batch(config_.batch_size, sampler_));
    targets += batches.back().targets;
    state_.tokens += batches.back().tokens;
  }
  // The sum of each batch is divided by the number of targets in all batches: a mean of the
  // batches' means would weight the targets of a batch with few of them more.
  auto mean = torch::zeros({}, torch::TensorOptions(device_).dtype(torch::kDouble));
  ExactMatch matches;
  for (auto batch : batches) {
    for (auto& tensor : batch.tensors) {
      if (tensor.defined()) tensor = tensor.to(device_);
    }
    auto loss = [&] {
      const AutocastGuard autocast(device_.type(), config_.precision == Precision::bf16
                                                       ? AutocastState{true, torch::kBFloat16}
                                                       : autocast_state(device_.type()));
      return objective_->training_loss(batch);
    }();
    if (is_report_step() && loss.exact_match) matches += loss.exact_match();
    loss.exact_match = {};  // may own the logits, which the backward pass does not need
    auto scaled = loss.sum / static_cast<double>(targets);
    mean += scaled.detach();
    if (loss.auxiliary.defined())
      scaled = scaled + loss.auxiliary / static_cast<double>(config_.gradient_accumulation_steps);
    scaled.backward();
  }
  progress_.train_loss = mean.item<double>();
  progress_.accuracy = matches.accuracy();
}

void Trainer::report(const TrainerHooks& hooks) {
  progress_.seconds = state_.seconds();
  progress_.tokens_per_second = static_cast<double>(state_.tokens - reported_tokens_) /
                                (state_.training_seconds - reported_seconds_);
  progress_.peak_memory = peak_memory();
  progress_.skipped_steps = state_.skipped_steps;
  reported_tokens_ = state_.tokens;
  reported_seconds_ = state_.training_seconds;
  for (auto* observer : hooks.observers) observer->on_progress(progress_);
}

void Trainer::evaluate(const TrainerHooks& hooks) {
  {
    const Stopwatch watch(state_.evaluation_seconds);
    const EvalGuard eval(module());
    const torch::NoGradGuard no_grad;
    state_.last = objective_->evaluate();
  }
  ++state_.evaluations_without_improvement;
  if (std::isfinite(state_.last->loss) && (!state_.best || state_.last->loss < state_.best->loss)) {
    state_.best = state_.last;
    state_.best_step = state_.step;
    state_.evaluations_without_improvement = 0;
    best_weights_ = cpu_copies(state_dict(module()));
    if (hooks.checkpoint_sink != nullptr) hooks.checkpoint_sink->save_best(best_weights_);
  }
  for (auto* observer : hooks.observers) observer->on_evaluation(state_.step, *state_.last);
}

/// Skips checkpoints with non-finite weights, so that they do not replace good ones: the last
/// optimizer step may have produced them, which the next loss would show.
void Trainer::save(const TrainerHooks& hooks) const {
  const auto now = checkpoint();
  if (all_finite(now.weights)) hooks.checkpoint_sink->save(now);
}

bool Trainer::is_out_of_patience() const {
  return config_.patience > 0 && state_.evaluations_without_improvement >= config_.patience;
}

Checkpoint Trainer::checkpoint() const {
  std::vector<uint8_t> requires_grad;
  for (const auto& parameter : parameters_) requires_grad.push_back(parameter.requires_grad());
  Checkpoint checkpoint{.trainer_state = state_,
                        .weights = state_dict(module()),
                        .state = {{kRequiresGrad, torch::tensor(requires_grad, torch::kByte)}},
                        .best = best_weights_};
  add_with_prefix(checkpoint.state, kOptimizer, optimizer_->state());
  add_with_prefix(checkpoint.state, kSampler, sampler_.state());
  add_with_prefix(checkpoint.state, kRandom, rng_state(device_));
  add_with_prefix(checkpoint.state, kObjective, objective_->state());
  return checkpoint;
}

void Trainer::restore(const Checkpoint& checkpoint) {
  load_state_dict(module(), checkpoint.weights);
  const auto requires_grad = checkpoint.state.find(kRequiresGrad);
  const auto count = static_cast<int64_t>(parameters_.size());
  if (requires_grad == checkpoint.state.end() || requires_grad->second.numel() != count) {
    throw InputError(
        fmt::format("the checkpoint's '{}' does not have an entry for each of the {} "
                    "parameters",
                    kRequiresGrad, count));
  }
  for (int64_t i = 0; i < count; ++i) {
    parameters_[static_cast<std::size_t>(i)].set_requires_grad(
        requires_grad->second[i].item<bool>());
  }
  optimizer_->load_state(without_prefix(checkpoint.state, kOptimizer));
  sampler_.load_state(without_prefix(checkpoint.state, kSampler));
  set_rng_state(device_, without_prefix(checkpoint.state, kRandom));
  objective_->load_state(without_prefix(checkpoint.state, kObjective));
  state_ = checkpoint.trainer_state;
  best_weights_ = checkpoint.best;
  reported_seconds_ = state_.training_seconds;
  reported_tokens_ = state_.tokens;
}

}  // namespace attend::train
